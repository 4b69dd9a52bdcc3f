import type { AgentMessage } from "@earendil-works/pi-agent-core";

const TEXT = "The quick brown fox jumps over the lazy dog. ".repeat(23).slice(0, 1_000);

/** What every append in this benchmark stores: an answer of 1,000 characters with its usage. */
export const MESSAGE: AgentMessage = {
  role: "assistant",
  content: [{ type: "text", text: TEXT }],
  api: "anthropic-messages",
  provider: "anthropic",
  model: "claude-opus-4-5",
  usage: {
    input: 12_000,
    output: 250,
    cacheRead: 11_000,
    cacheWrite: 500,
    totalTokens: 23_750,
    cost: { input: 0.06, output: 0.00625, cacheRead: 0.0055, cacheWrite: 0.003125, total: 0.074875 },
  },
  stopReason: "stop",
  timestamp: 1_767_225_600_000,
};

export const MESSAGE_TEXT = TEXT;
