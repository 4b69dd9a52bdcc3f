import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";

/** Writes a session of version 3 with records of about 1 kB, half of which spent something, until it has this size. */
export async function writeLargeFile(path: string, options: { bytes: number }): Promise<{ records: number }> {
  let records = 0;
  async function* lines(): AsyncGenerator<string> {
    let written = 0;
    let block = `${JSON.stringify({ type: "session", version: 3, id: "large", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/" })}\n`;
    while (written < options.bytes) {
      while (block.length < 256 * 1024) block += `${JSON.stringify(record(records++))}\n`;
      written += block.length;
      yield block;
      block = "";
    }
  }
  await pipeline(lines, createWriteStream(path));
  return { records };
}

const FIRST = Date.UTC(2025, 0, 1);
const TEXT = "Read the file, then say what it does and where it is used. ".repeat(14);

function record(number: number) {
  return {
    type: "message",
    id: idOf(number),
    parentId: number === 0 ? null : idOf(number - 1),
    timestamp: new Date(FIRST + number * 1000).toISOString(),
    message: number % 2 === 0 ? user(number) : assistant(number),
  };
}

/** As long as a UUID and as scattered. */
function idOf(number: number): string {
  const scattered = Math.imul(number + 1, 0x9e3779b1) >>> 0;
  return `${scattered.toString(16).padStart(8, "0")}-7000-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

function user(number: number) {
  return { role: "user", content: `${number} ${TEXT}`, timestamp: FIRST + number * 1000 };
}

function assistant(number: number) {
  return {
    role: "assistant",
    content: [{ type: "text", text: TEXT.slice(0, 500) }],
    api: "anthropic-messages",
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    usage: {
      input: 100,
      output: number % 500,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 100 + (number % 500),
      cost: { input: 0.0003, output: 0.001, cacheRead: 0, cacheWrite: 0, total: 0.0013 },
    },
    stopReason: "stop",
    timestamp: FIRST + number * 1000,
  };
}
