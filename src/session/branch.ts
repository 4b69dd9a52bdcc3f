import type { Context } from "../contract/context.ts";
import type { Entry, NewEntry } from "../contract/entry.ts";
import type { JsonValue } from "../contract/json.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { Branch } from "../contract/session.ts";
import type { BranchScan, StorageBranchScan, TipScan } from "../contract/storage.ts";

/** What a branch appends: an entry that does not know its place yet. */
export type BranchNode =
  | Omit<Extract<NewEntry, { type: "message" }>, "id" | "parentId">
  | Omit<Extract<NewEntry, { type: "custom" }>, "id" | "parentId">;

/** What a branch needs of its session. */
interface BranchHost {
  getTipId(context: Context): Promise<string | null>;
  scanTip(query: TipScan, context: Context): Promise<Entry[]>;
  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]>;
  append(node: BranchNode, context: Context): Promise<string>;
}

export class StorageBranch implements Branch {
  readonly name: string;
  readonly #host: BranchHost;

  constructor(name: string, host: BranchHost) {
    this.name = name;
    this.#host = host;
  }

  getTipId(context: Context): Promise<string | null> {
    return this.#host.getTipId(context);
  }

  async findEntries(query: BranchScan | undefined, context: Context): Promise<Entry[]> {
    const { start = null, ...scan } = query ?? {};
    return start === null
      ? this.#host.scanTip(scan, context)
      : this.#host.scanBranch({ ...scan, start }, context);
  }

  async findEntry(query: BranchScan | undefined, context: Context): Promise<Entry | undefined> {
    return (await this.findEntries(limitToOne(query), context))[0];
  }

  appendMessage(message: AgentMessage, context: Context): Promise<string> {
    return this.#host.append({ type: "message", message }, context);
  }

  appendCustomEntry(customType: string, data: JsonValue | undefined, context: Context): Promise<string> {
    return this.#host.append(
      { type: "custom", customType, ...(data === undefined ? {} : { data }) },
      context,
    );
  }
}

/** Keeps a smaller limit of the caller, so that a limit of 0 finds nothing. */
export function limitToOne<T extends { limit?: number }>(query: T | undefined): T & { limit: number } {
  return { ...(query as T), limit: Math.min(query?.limit ?? 1, 1) };
}
