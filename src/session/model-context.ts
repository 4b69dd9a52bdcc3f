import type { Context } from "../contract/context.ts";
import type { CompactionEntry, Entry, EntryProjector } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import { ContextEdits } from "./context-edits.ts";

/** How {@link buildSessionContext} treats custom entries. */
export interface SessionContextOptions {
  /** Projectors by custom type. A custom entry without one is left out. */
  entryProjectors?: Readonly<Record<string, EntryProjector>>;
  /**
   * Whether the context edits of an imported session count: of those on the path that change the same message, the
   * last one. Other sessions have none. Default true.
   */
  contextEdits?: boolean;
}

/**
 * The messages that a model would get at the end of a path. The last compaction stands for everything before it, as
 * its system message, its summary and its retained tail. Assistant messages with stop reason `error`, `aborted` or
 * `deferred`, empty branch summaries and custom entries without a projector are left out.
 *
 * @param path entries from the root to the tip, as `branch.findEntries` returns them with `order: "oldestFirst"`
 * @throws what a projector throws
 * @example
 * const path = await branch.findEntries({ order: "oldestFirst" }, context);
 * const messages = await buildSessionContext(path, undefined, context);
 */
export async function buildSessionContext(
  path: readonly Entry[],
  options: SessionContextOptions | undefined,
  context: Context,
): Promise<AgentMessage[]> {
  const projectors = new Map(Object.entries(options?.entryProjectors ?? {}));
  const compactionAt = lastCompaction(path);
  const edits = options?.contextEdits === false ? NO_EDITS : new ContextEdits(path, compactionAt);
  const messages: AgentMessage[] = [];
  for (const entry of path.slice(Math.max(compactionAt, 0))) {
    const projected =
      entry.type === "custom"
        ? await projectors.get(entry.customType)?.(entry, context)
        : contextMessages(entry, edits);
    messages.push(...(projected ?? []));
  }
  return messages;
}

const NO_EDITS = new ContextEdits([], -1);

function lastCompaction(path: readonly Entry[]): number {
  return path.findLastIndex((entry) => entry.type === "compaction");
}

function contextMessages(entry: Exclude<Entry, { type: "custom" }>, edits: ContextEdits): AgentMessage[] {
  switch (entry.type) {
    case "message":
      return [entry.message].filter(isForModel).flatMap((message) => edits.applied(message, entry.id));
    case "compaction":
      return [
        ...checkpoint(entry).flatMap((message) => edits.applied(message, entry.id)),
        ...tail(entry, edits),
      ];
    case "branch_summary": {
      const { summary, fromId, timestamp } = entry;
      if (!summary) return [];
      return edits.applied({ role: "branchSummary", summary, fromId, timestamp }, entry.id);
    }
  }
}

function checkpoint({ systemMessage, summary, tokensBefore, timestamp }: CompactionEntry): AgentMessage[] {
  const told: AgentMessage = { role: "compactionSummary", summary, tokensBefore, timestamp };
  return systemMessage === undefined ? [told] : [systemMessage, told];
}

function tail({ retainedTail, systemMessage }: CompactionEntry, edits: ContextEdits): AgentMessage[] {
  return retainedTail.flatMap((message, number) => {
    const isReplaced = message.role === "system" && systemMessage !== undefined;
    return isReplaced || !isForModel(message) ? [] : edits.applied(message, edits.retainedId(number));
  });
}

const UNFINISHED: ReadonlySet<string> = new Set(["error", "aborted", "deferred"]);

/** What a model never finished saying is not said again to it. */
function isForModel(message: AgentMessage): boolean {
  return message.role !== "assistant" || !UNFINISHED.has(message.stopReason);
}
