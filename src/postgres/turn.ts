import {
  branchTip,
  type ListElement,
  type ListReadOptions,
  type StoredValue,
  type Value,
  type ValueList,
} from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import type { StorageBranchScan, StorageTurn } from "../contract/storage.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { CommitResult, Write } from "../contract/write.ts";
import { getEntries } from "./entries.ts";
import { scanBranch } from "./scan-branch.ts";
import { headOf, headStatement, readHead, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { type Preface, prefaceOf, type Tables } from "./transaction.ts";
import { getValue, readList, scanValues } from "./values.ts";

/** What a turn needs of its storage. */
export interface TurnHost {
  readonly tables: Tables;
  readonly key: SessionKey;
  /** What the storage remembers, if anything. */
  remembered(): SessionHead | undefined;
  /** Lets a read in. */
  admit<T>(operation: () => Promise<T>): Promise<T>;
  /** Commits; with a basis, only if nobody has committed since. */
  commit(writes: Write[], basis: SessionHead | undefined, context: Context): Promise<CommitResult>;
}

/**
 * Reads of one mutation. The first one also reads the head of the session, in the same round trip and before
 * anything else: the commit succeeds only if it is still there. So whatever was read is still true then.
 */
export class PgTurn implements StorageTurn {
  readonly #host: TurnHost;
  #basis: SessionHead | undefined;

  constructor(host: TurnHost) {
    this.#host = host;
  }

  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>> {
    return this.#read((tables, key) => getEntries(tables, key, ids, context));
  }

  getStats(context: Context): Promise<SessionStats> {
    return this.#read(async (tables, key) => (await readHead(tables, key, context)).stats);
  }

  getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined> {
    return this.#read((tables, key) => getValue(tables, key, address, context));
  }

  scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]> {
    return this.#read((tables, key) => scanValues(tables, key, prefix, context));
  }

  readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]> {
    return this.#read((tables, key) => readList(tables, key, address, options, context));
  }

  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]> {
    return this.#read((tables, key) => scanBranch(tables, key, query, context));
  }

  async recallTip(branch: string, context: Context): Promise<string | null | undefined> {
    const remembered = this.#host.remembered();
    if (this.#basis === undefined && remembered?.tips.has(branch) === true) {
      this.#basis = remembered;
      return remembered.tips.get(branch) as string | null;
    }
    return (await this.getValue(branchTip(branch), context))?.value;
  }

  commit(writes: Write[], context: Context): Promise<CommitResult> {
    return this.#host.commit(writes, this.#basis, context);
  }

  #read<T>(work: (tables: Tables, key: SessionKey) => Promise<T>): Promise<T> {
    const { tables, key } = this.#host;
    return this.#host.admit(() =>
      work(this.#basis === undefined ? { ...tables, preface: this.#readsHead(key) } : tables, key),
    );
  }

  #readsHead(key: SessionKey): Preface {
    return prefaceOf(
      (db) => headStatement(db, key),
      ([row]) => {
        // Of reads that began together, the oldest counts.
        if (row === undefined || (this.#basis !== undefined && this.#basis.nextSeq <= row.next_seq)) return;
        this.#basis = headOf(row);
      },
    );
  }
}
