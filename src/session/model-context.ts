import type { Context } from "../contract/context.ts";
import type { Entry, EntryProjector } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";

/** How {@link buildSessionContext} treats custom entries. */
export interface SessionContextOptions {
  /** Projectors by custom type. A custom entry without one is left out. */
  entryProjectors?: Readonly<Record<string, EntryProjector>>;
}

/**
 * The messages that a model would get at the end of a path. The last compaction stands for everything before it, as
 * its summary and its retained tail. Assistant messages with stop reason `error`, `aborted` or `deferred`, empty
 * branch summaries and custom entries without a projector are left out.
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
  const messages: AgentMessage[] = [];
  for (const entry of sinceLastCompaction(path)) {
    const projected =
      entry.type === "custom"
        ? await projectors.get(entry.customType)?.(entry, context)
        : contextMessages(entry);
    messages.push(...(projected ?? []));
  }
  return messages;
}

/** A compaction stands for everything before it. */
export function sinceLastCompaction(path: readonly Entry[]): readonly Entry[] {
  const last = path.findLastIndex((entry) => entry.type === "compaction");
  return last === -1 ? path : path.slice(last);
}

function contextMessages(entry: Exclude<Entry, { type: "custom" }>): AgentMessage[] {
  switch (entry.type) {
    case "message":
      return [entry.message].filter(isForModel);
    case "compaction": {
      const { summary, tokensBefore, timestamp } = entry;
      return [
        { role: "compactionSummary", summary, tokensBefore, timestamp },
        ...entry.retainedTail.filter(isForModel),
      ];
    }
    case "branch_summary": {
      const { summary, fromId, timestamp } = entry;
      return summary ? [{ role: "branchSummary", summary, fromId, timestamp }] : [];
    }
  }
}

const UNFINISHED: ReadonlySet<string> = new Set(["error", "aborted", "deferred"]);

/** What a model never finished saying is not said again to it. */
function isForModel(message: AgentMessage): boolean {
  return message.role !== "assistant" || !UNFINISHED.has(message.stopReason);
}
