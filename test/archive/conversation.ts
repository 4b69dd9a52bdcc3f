/** Random conversations as plain data, and how any session of the contract's form is written by them. */
import fc from "fast-check";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import {
  type AgentMessage,
  appendList,
  branchTip,
  deleteList,
  deleteValue,
  type Entry,
  entryLabel,
  idleLaneState,
  insertEntry,
  insertUsage,
  laneConfig,
  laneState,
  list,
  type NewEntry,
  type Session,
  sessionName,
  setValue,
  type Usage,
  value,
  type Write,
} from "../../src/index.ts";

/** One commit. Numbers choose among what is there. */
export interface Step {
  kind: (typeof KINDS)[number];
  /** Chooses the branch: mostly `main`. */
  branch: number;
  other: number;
  text: string;
  tokens: number;
}

const KINDS = [
  "user",
  "user",
  "assistant",
  "assistant",
  "toolResult",
  "custom",
  "customMessage",
  "system",
  "compaction",
  "otherTail",
  "branchSummary",
  "move",
  "label",
  "unlabel",
  "name",
  "unname",
  "configure",
  "adjustment",
  "value",
  "unvalue",
  "list",
  "unlist",
] as const;

/** What a conversation writes that no version 3 record can say. */
export const ONLY_V4: ReadonlySet<Step["kind"]> = new Set([
  "value",
  "unvalue",
  "list",
  "unlist",
  "otherTail",
  "system",
]);

export const NAMESPACES = ["app", "app.%"];
export const LISTS = [
  ["log", ""],
  ["log", "é😀"],
] as const;

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.constantFrom("", "\0", "\ud800", "line\u2028separator", "two\nlines", "😀", "5e-324"),
);

export function conversation(
  kinds: (kind: Step["kind"]) => boolean = () => true,
  maxLength = 25,
): fc.Arbitrary<Step[]> {
  const step = fc.record({
    kind: fc.constantFrom(...KINDS.filter(kinds)),
    branch: fc.nat({ max: 9 }),
    other: fc.nat(),
    text,
    tokens: fc.nat({ max: 9_999 }),
  });
  return fc.array(step, { maxLength });
}

type AnySession = Pick<Session, "mutate" | "getValue" | "scanBranch">;

/** Writes a conversation into an empty session, with ids that say which step made them. */
export async function converse(session: AnySession, steps: readonly Step[], prefix = "e"): Promise<void> {
  const ids: string[] = [];
  for (const [number, step] of steps.entries()) {
    const name = step.branch < 7 ? "main" : `b${step.branch}`;
    const tip = (await session.getValue(branchTip(name), context))?.value ?? null;
    const path =
      tip === null || step.kind !== "compaction"
        ? []
        : await session.scanBranch({ start: tip, order: "oldestFirst" }, context);
    const sinceCompaction = path.slice(path.findLastIndex((entry) => entry.type === "compaction") + 1);
    const tail = sinceCompaction.flatMap(messagesOf);
    const writes = writesOf(step, { name, tip, ids, id: `${prefix}${number}`, tail });
    // pi's own types of the same shapes.
    await session.mutate((mutator) => mutator.commit(writes as never, context), context);
  }
}

function messagesOf(entry: Entry): AgentMessage[] {
  if (entry.type === "message") return [entry.message];
  if (entry.type !== "branch_summary" || entry.summary === "") return [];
  const { summary, fromId, timestamp } = entry;
  return [{ role: "branchSummary", summary, fromId, timestamp }];
}

interface Situation {
  name: string;
  tip: string | null;
  ids: string[];
  id: string;
  /** What a compaction may retain. */
  tail: AgentMessage[];
}

function writesOf(step: Step, situation: Situation): Write[] {
  const { kind, text, tokens } = step;
  const { name, tip, ids, id, tail } = situation;
  const timestamp = 1_700_000_000_000 + tokens;
  const other = ids[step.other % (ids.length || 1)] ?? null;
  const namespace = NAMESPACES[step.other % 2] as string;
  const [listNamespace, listKey] = LISTS[step.other % 2] as (typeof LISTS)[number];
  const append = (entry: Omit<NewEntry, "id" | "parentId">, ...more: Write[]): Write[] => {
    ids.push(id);
    return [insertEntry({ ...entry, id, parentId: tip } as NewEntry), ...more, setValue(branchTip(name), id)];
  };
  const say = (message: object, ...more: Write[]) =>
    append({ type: "message", message: { ...message, timestamp } as AgentMessage } as never, ...more);
  const spent = usageOf(tokens);
  switch (kind) {
    case "user":
      return say({ role: "user", content: text });
    case "system":
      return say({ role: "system", content: text });
    case "assistant":
      return say(
        {
          role: "assistant",
          content: [{ type: "text", text }],
          api: "a",
          provider: "p",
          model: "m",
          usage: spent,
          stopReason: tokens % 9 === 0 ? "aborted" : "stop",
        },
        insertUsage({ id: `${id}:call`, usage: spent, entryId: id, adjustment: false }),
      );
    case "toolResult":
      return say({
        role: "toolResult",
        toolCallId: text,
        toolName: "read",
        content: [],
        isError: tokens % 2 === 0,
      });
    case "customMessage":
      return say({ role: "custom", customType: "hint", content: text, display: true });
    case "custom":
      return append({
        type: "custom",
        customType: "note",
        ...(text === "" ? {} : { data: { text } }),
      } as never);
    case "compaction": {
      const kept = tail.slice(tail.length - (tokens % (tail.length + 1)));
      return append({
        type: "compaction",
        summary: text,
        retainedTail: kept,
        tokensBefore: tokens,
        fromHook: false,
      } as never);
    }
    case "otherTail":
      return append({
        type: "compaction",
        summary: text,
        retainedTail: [{ role: "user", content: `elsewhere ${text}`, timestamp }],
        tokensBefore: tokens,
        fromHook: true,
      } as never);
    case "branchSummary":
      return append({
        type: "branch_summary",
        fromId: other,
        summary: text,
        fromHook: tokens % 2 === 0,
      } as never);
    case "move":
      return [setValue(branchTip(name), other)];
    case "label":
      return other === null ? [] : [setValue(entryLabel(other), text)];
    case "unlabel":
      return other === null ? [] : [deleteValue(entryLabel(other))];
    case "name":
      return [setValue(sessionName, text)];
    case "unname":
      return [deleteValue(sessionName)];
    case "configure":
      return [
        setValue(laneConfig(name), {
          model: { provider: "p", modelId: text },
          thinkingLevel: "high",
          activeToolNames: tokens % 2 === 0 ? [] : ["read"],
        }),
        setValue(laneState(name), idleLaneState()),
      ];
    case "adjustment":
      return [
        insertUsage({
          id: `${id}:usage`,
          usage: spent,
          ...(other === null ? {} : { entryId: other }),
          adjustment: tokens % 2 === 0,
          details: { text },
        }),
      ];
    case "value":
      return [setValue(value<unknown>(namespace, text.isWellFormed() ? text.replace("\0", "") : ""), tokens)];
    case "unvalue":
      return [deleteValue(value(namespace, ""))];
    case "list":
      return [appendList(list<unknown>(listNamespace, listKey), { text })];
    case "unlist":
      return [deleteList(list(listNamespace, listKey))];
  }
}

function usageOf(tokens: number): Usage {
  return {
    input: tokens,
    output: 1,
    cacheRead: 2,
    cacheWrite: 3,
    totalTokens: tokens + 6,
    ...(tokens % 3 === 0 ? { reasoning: tokens % 2 } : {}),
    cost: { input: tokens / 7, output: 0.1, cacheRead: 0, cacheWrite: 5e-324, total: tokens / 7 + 0.1 },
  };
}
