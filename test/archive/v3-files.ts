import fc from "fast-check";
import { jsonl } from "./scratch.ts";

/** What one line of a generated file is made from: numbers choose among the records before it. */
interface Step {
  kind: (typeof KINDS)[number];
  /** Chooses the parent: mostly the record before. */
  parent: number;
  other: number;
  text: string;
  usage: Record<string, unknown> | undefined;
  /** Minutes after the record before. */
  pause: number;
}

const KINDS = [
  "user",
  "assistant",
  "toolResult",
  "bashExecution",
  "custom",
  "custom_message",
  "branch_summary",
  "compaction",
  "model_change",
  "thinking_level_change",
  "active_tools_change",
  "session_info",
  "label",
  "unlabel",
] as const;

const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom("", "\0", "\ud800", "line\u2028separator", "😀", "__proto__", "5e-324"),
);

const cost = fc.double({ min: 0, max: 9, noNaN: true });
const tokens = fc.integer({ min: 0, max: 200_000 });
const usage = fc.oneof(
  fc.constant({
    input: 0,
    output: 0,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 0,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  }),
  fc.record(
    {
      input: tokens,
      output: tokens,
      cacheRead: tokens,
      cacheWrite: tokens,
      totalTokens: tokens,
      cacheWrite1h: tokens,
      reasoning: fc.constantFrom(0, 7),
      cost: fc.record({ input: cost, output: cost, cacheRead: cost, cacheWrite: cost, total: cost }),
    },
    { requiredKeys: ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"] },
  ),
);

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(...KINDS),
  parent: fc.nat(),
  other: fc.nat(),
  text,
  usage: fc.option(usage, { nil: undefined }),
  pause: fc.nat({ max: 90 }),
});

/** Files of version 3 that pi opens. */
export const v3File: fc.Arbitrary<string> = fc
  .tuple(fc.array(step, { maxLength: 40 }), fc.boolean(), fc.constantFrom("", '{"type":"message","id":"to'))
  .map(([steps, isChain, torn]) => {
    const records: Record<string, unknown>[] = [];
    for (const [number, choice] of steps.entries()) records.push(recordOf(choice, number, records, isChain));
    const header = {
      type: "session",
      version: 3,
      id: "generated",
      timestamp: "2025-03-01T09:00:00.000Z",
      cwd: "/srv",
    };
    return jsonl(header, ...records) + torn;
  });

function recordOf(step: Step, number: number, earlier: Record<string, unknown>[], isChain: boolean) {
  const ids = earlier.map((record) => record["id"] as string);
  const followsLast = isChain || step.parent % 4 !== 0;
  const parentId = (followsLast ? ids.at(-1) : ids[step.parent % (ids.length + 1)]) ?? null;
  const base = {
    id: `r${number}`,
    parentId,
    timestamp: new Date(Date.UTC(2025, 2, 1, 9, step.pause + number)).toISOString(),
  };
  return { ...base, ...payloadOf(step, parentId, earlier, ids) };
}

function payloadOf(step: Step, parentId: string | null, earlier: Record<string, unknown>[], ids: string[]) {
  const { kind, text, usage } = step;
  const other = ids[step.other % (ids.length || 1)];
  const spent = usage === undefined ? {} : { usage };
  const timestamp = step.pause;
  switch (kind) {
    case "user":
      return { type: "message", message: { role: kind, content: text, timestamp } };
    case "assistant":
      return {
        type: "message",
        message: {
          role: kind,
          content: [{ type: "text", text }],
          provider: "p",
          model: "m",
          ...spent,
          timestamp,
        },
      };
    case "toolResult":
      return {
        type: "message",
        message: { role: kind, toolCallId: text, content: [], isError: false, ...spent, timestamp },
      };
    case "bashExecution":
      return { type: "message", message: { role: kind, command: text, output: text, timestamp } };
    case "custom":
      return { type: "custom", customType: "note", ...(text === "" ? {} : { data: { text } }) };
    case "custom_message":
      return {
        type: kind,
        customType: "hint",
        content: text,
        display: true,
        ...(text === "" ? {} : { details: text }),
      };
    case "branch_summary":
      return {
        type: kind,
        fromId: other ?? "root",
        summary: text,
        ...spent,
        ...(step.pause > 60 ? { fromHook: true } : {}),
      };
    case "compaction": {
      const kept = ancestors(parentId, earlier);
      if (kept.length === 0) return { type: "custom", customType: "empty" };
      const firstKeptEntryId = kept[step.other % kept.length];
      return { type: kind, summary: text, firstKeptEntryId, tokensBefore: 12_345, ...spent };
    }
    case "model_change":
      return { type: kind, provider: "anthropic", modelId: text };
    case "thinking_level_change":
      return { type: kind, thinkingLevel: "high" };
    case "active_tools_change":
      return { type: kind, activeToolNames: ["read", text] };
    case "session_info":
      return { type: kind, name: text };
    case "label":
    case "unlabel":
      if (other === undefined) return { type: "session_info" };
      return { type: "label", targetId: other, ...(kind === "label" ? { label: text } : {}) };
  }
}

function ancestors(from: string | null, earlier: Record<string, unknown>[]): string[] {
  const path: string[] = [];
  for (let id = from; id !== null; ) {
    path.push(id);
    const at = id;
    id = (earlier.find((record) => record["id"] === at)?.["parentId"] as string | null | undefined) ?? null;
  }
  return path;
}
