import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "./address.ts";
import type { Context } from "./context.ts";
import type { Entry, EntryStructure, EntryType } from "./entry.ts";
import type { SessionReader } from "./session.ts";
import type { SessionStats } from "./usage.ts";
import type { CommitResult, UsageRow, Write } from "./write.ts";

/** The newest version of the stored form of a session that this release reads, and the one that it writes. */
export const STORAGE_VERSION = 1;

/**
 * What a backend keeps for one session. Every method rejects with the reason of its context's abort signal once that
 * is aborted; a commit that was sent is finished and reported.
 */
export interface Storage {
  /**
   * Commits all writes or none, and gives each a `seq`. An empty commit is legal and changes nothing.
   *
   * @returns the `seq` of each write, and the session's totals right after this commit
   * @throws InvalidTextError, InvalidUsageError, InvalidWriteError, DuplicateIdError, MissingParentError
   * @throws SessionClosedError, SessionNotFoundError when the session was deleted, SessionFencedError when it was
   *   opened exclusively since
   */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
  /**
   * The entries with these ids, in the order of `ids`; ids that the session does not have are left out.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError when `ids` is not an array
   */
  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>>;
  /**
   * The current value at an address; `undefined` if none is set.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined>;
  /**
   * All values in the prefix's namespace whose key starts with the prefix's key, ordered by key (by code point). The
   * prefix is literal, without wildcards; an empty key selects the whole namespace.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]>;
  /**
   * Elements of a list in the order of their `seq`, by default the first 1,000; an unknown list is empty.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError
   */
  readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]>;
  /**
   * Entries on the path between `query.start` and its root. The path is put in order, cut at the stop, filtered, and
   * then limited.
   *
   * @throws SessionClosedError, UnknownEntryError when `start` is not an entry of the session, InvalidTextError,
   *   InvalidOptionError
   */
  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]>;
  /**
   * The entries that {@link Storage.scanBranch} would return, without their payloads, which stay unread.
   *
   * @throws SessionClosedError, UnknownEntryError when `start` is not an entry of the session, InvalidTextError,
   *   InvalidOptionError
   */
  scanBranchStructure(query: StorageBranchScan, context: Context): Promise<EntryStructure[]>;
  /**
   * Entries of the whole session, on any branch, in the order of their `seq`.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError
   */
  scanEntries(query: EntryScan, context: Context): Promise<Entry[]>;
  /**
   * Rows of the usage ledger in the order of their `seq`.
   *
   * @throws SessionClosedError, InvalidOptionError
   */
  scanUsage(query: UsageScan, context: Context): Promise<UsageRow[]>;
  /**
   * Number of messages on all branches, and the sum of the usage ledger.
   *
   * @throws SessionClosedError, SessionNotFoundError when the session was deleted
   */
  getStats(context: Context): Promise<SessionStats>;
  /**
   * Admits nothing more, at once; resolves when everything that was admitted has finished. Closing again waits for
   * the same end.
   */
  close(context: Context): Promise<void>;
}

/**
 * What one mutation reads, and the commit that rests on it. The commit succeeds only if nobody else has committed
 * since the first read.
 */
export interface StorageTurn extends SessionReader {
  /**
   * The tip of a branch, perhaps from memory: the commit finds out whether it still is the tip. `undefined` if there
   * is no such branch.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  recallTip(branch: string, context: Context): Promise<string | null | undefined>;
  /**
   * Commits all writes or none.
   *
   * @returns the `seq` of each write, and the session's totals right after this commit
   * @throws SessionConflictError when another writer has committed since the first read, and what {@link
   *   Storage.commit} throws
   */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
}

/** A storage that other writers may share, and that tells a mutation if one of them has committed in between. */
export interface SharedStorage extends Storage {
  /** Begins to record what a mutation rests on. Sends nothing, and needs no end. */
  beginTurn(): StorageTurn;
  /**
   * What {@link Storage.scanBranch} returns from the tip of a branch; nothing where the tip is `null`, and `undefined`
   * if there is no such branch.
   *
   * @throws SessionClosedError, UnknownEntryError when the tip is not an entry of the session, InvalidTextError,
   *   InvalidOptionError
   */
  scanTip(branch: string, query: TipScan, context: Context): Promise<Entry[] | undefined>;
}

/** A place among entries; any {@link Entry} is one. */
export interface EntryCursor {
  /** Of the entry that was read last. */
  seq: number;
}

/** Selects entries on a path to a root. The order comes first, then the stop, then the filters, then the limit. */
export interface BranchScan {
  /** The entry that the path leads from, to its root. Default: the tip of the branch. */
  start?: string;
  /**
   * Ends the scan with the first entry of this type, in the scan's order. It is returned if the filters let it
   * through.
   */
  stopAtType?: EntryType;
  /** Ends the scan with this entry. It is returned if the filters let it through. */
  stopAtId?: string;
  /** Only entries of this type. */
  type?: EntryType;
  /** Only entries with this custom type, whatever their `type`. */
  customType?: string;
  /** From `start` to the root (`newestFirst`, the default) or from the root to `start`. */
  order?: "newestFirst" | "oldestFirst";
  /** At most this many entries; default: all. A limit below 1 finds nothing. */
  limit?: number;
  /** Exclusive: finds entries before (`newestFirst`) or after (`oldestFirst`) this `seq`. */
  cursor?: EntryCursor;
}

/** A {@link BranchScan} that names its `start`, since a storage knows no branches. */
export type StorageBranchScan = BranchScan & { start: string };

/** A {@link BranchScan} that begins at the tip of a branch. */
export type TipScan = Omit<BranchScan, "start">;

/** Selects entries of a whole session, on any branch, by a range of `seq`. */
export interface EntryScan {
  /** Only entries of this type. */
  type?: EntryType;
  /** Only entries with this custom type, whatever their `type`. */
  customType?: string;
  /** Inclusive. Default: from the first entry. */
  fromSeq?: number;
  /** Inclusive. Default: to the last entry. */
  toSeq?: number;
  /** By `seq`: oldest first (`asc`, the default) or newest first (`desc`). */
  order?: "asc" | "desc";
  /** At most this many entries; default: all. A limit below 1 finds nothing. */
  limit?: number;
}

/** Selects rows of the usage ledger by a range of `seq`. */
export interface UsageScan {
  /** Inclusive. Default: from the first row. */
  fromSeq?: number;
  /** Inclusive. Default: to the last row. */
  toSeq?: number;
  /** By `seq`: oldest first (`asc`, the default) or newest first (`desc`). */
  order?: "asc" | "desc";
  /** At most this many rows; default: all. A limit below 1 finds nothing. */
  limit?: number;
}
