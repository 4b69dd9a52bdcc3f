import type { Entry } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import { CONTEXT_EDIT } from "../contract/record.ts";

/** What the model gets of a message instead; `null`: nothing. */
export type Replacement = { readonly content: unknown } | null;

/** The edits that apply at the end of a path, by the entry that they change. The last one of each counts. */
export class ContextEdits {
  readonly #replacements = new Map<string, Replacement>();
  /** The entries that a compaction retained messages of, in the order of its tail. */
  readonly #retained: readonly string[];

  /** `path`: from the root to the tip. `compactionAt`: position of its last compaction, or -1. */
  constructor(path: readonly Entry[], compactionAt: number) {
    const first = retainedFrom(path, compactionAt);
    this.#retained = path.slice(first, Math.max(compactionAt, first)).filter(givesMessage).map(idOf);
    for (const entry of path) this.#note(entry);
  }

  /** The message of an entry as the model gets it. */
  applied(message: AgentMessage, entryId: string | undefined): AgentMessage[] {
    const replacement = entryId === undefined ? undefined : this.#replacements.get(entryId);
    if (replacement === undefined) return [message];
    return replacement === null ? [] : [replaced(message, replacement.content)];
  }

  /** The entry that this message of the last compaction's tail comes from; `undefined` if it is not on the path. */
  retainedId(number: number): string | undefined {
    return this.#retained[number];
  }

  #note(entry: Entry): void {
    if (entry.type !== "custom" || entry.customType !== CONTEXT_EDIT) return;
    const { targetId, replacement } = (entry.data ?? {}) as { targetId?: unknown; replacement?: Replacement };
    if (typeof targetId === "string" && replacement !== undefined)
      this.#replacements.set(targetId, replacement);
  }
}

/** Position of the first entry that a compaction retained: its tail are the last messages before it. */
function retainedFrom(path: readonly Entry[], compactionAt: number): number {
  const compaction = path[compactionAt];
  if (compaction?.type !== "compaction") return 0;
  let missing = compaction.retainedTail.length;
  for (let at = compactionAt - 1; at >= 0 && missing > 0; at--) {
    if (givesMessage(path[at] as Entry)) missing--;
    if (missing === 0) return at;
  }
  return compactionAt; // the path begins later, or the tail came from elsewhere
}

/** Whether a retained tail has a message of this entry. */
function givesMessage(entry: Entry): boolean {
  return entry.type === "branch_summary" ? entry.summary !== "" : entry.type !== "custom";
}

function idOf({ id }: Entry): string {
  return id;
}

const EDITABLE: ReadonlySet<string> = new Set(["user", "assistant", "toolResult", "custom"]);

function replaced(message: AgentMessage, content: unknown): AgentMessage {
  if (!EDITABLE.has(message.role)) return message;
  const takesParts = message.role === "assistant" || message.role === "toolResult";
  const parts = takesParts && typeof content === "string" ? [{ type: "text", text: content }] : content;
  return { ...message, content: parts } as AgentMessage;
}
