import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "./address.ts";
import type { Context } from "./context.ts";
import type { Entry, EntryStructure, EntryType } from "./entry.ts";
import type { SessionReader } from "./session.ts";
import type { SessionStats } from "./usage.ts";
import type { CommitResult, UsageRow, Write } from "./write.ts";

/** The version of the stored form of a session; a newer one is refused. */
export const STORAGE_VERSION = 1;

/** What a backend keeps for one session. All methods honour the abort signal of their context. */
export interface Storage {
  /** All writes, or none. */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
  /** The entries that exist, by id; unknown ids are left out. */
  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>>;
  getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined>;
  /** Values of the namespace whose key starts with the prefix's key, by code point of their key. */
  scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]>;
  readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]>;
  /** The path from `start` to the root: cut at the stop, then filtered, then limited. */
  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]>;
  /** The same without payloads. */
  scanBranchStructure(query: StorageBranchScan, context: Context): Promise<EntryStructure[]>;
  scanEntries(query: EntryScan, context: Context): Promise<Entry[]>;
  scanUsage(query: UsageScan, context: Context): Promise<UsageRow[]>;
  getStats(context: Context): Promise<SessionStats>;
  /** Admits nothing more, and waits for what was admitted. */
  close(context: Context): Promise<void>;
}

/** What one mutation reads, and the commit that rests on it. */
export interface StorageTurn extends SessionReader {
  /** The tip of a branch, perhaps from memory: whether it still is the tip turns out at the commit. */
  recallTip(branch: string, context: Context): Promise<string | null | undefined>;
  /** @throws SessionConflictError when somebody else has committed since the first read of this turn */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
}

/** A storage that others write too, and that tells a mutation whether they came in between. */
export interface SharedStorage extends Storage {
  beginTurn(): StorageTurn;
}

export interface EntryCursor {
  seq: number;
}

export interface BranchScan {
  /** Default: the tip. */
  start?: string;
  /** Stops at the first entry of this type, which is the last one looked at. */
  stopAtType?: EntryType;
  /** Stops at this entry, which is the last one looked at. */
  stopAtId?: string;
  type?: EntryType;
  customType?: string;
  /** Default `newestFirst`. */
  order?: "newestFirst" | "oldestFirst";
  limit?: number;
  /** Exclusive. */
  cursor?: EntryCursor;
}

export type StorageBranchScan = BranchScan & { start: string };

/** A range of all entries of the session, both ends inclusive. */
export interface EntryScan {
  type?: EntryType;
  customType?: string;
  fromSeq?: number;
  toSeq?: number;
  /** Default `asc`. */
  order?: "asc" | "desc";
  limit?: number;
}

/** A range of the ledger, both ends inclusive. */
export interface UsageScan {
  fromSeq?: number;
  toSeq?: number;
  /** Default `asc`. */
  order?: "asc" | "desc";
  limit?: number;
}
