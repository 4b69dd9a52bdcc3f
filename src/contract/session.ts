import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "./address.ts";
import type { Context } from "./context.ts";
import type { Entry, EntryType } from "./entry.ts";
import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";
import type { BranchScan, EntryCursor, StorageBranchScan } from "./storage.ts";
import type { SessionStats } from "./usage.ts";
import type { CommitResult, Write } from "./write.ts";

/** What identifies and describes a session. Set when the session is created; never changed by commits. */
export interface SessionMetadata {
  /** 1 to 256 bytes of UTF-8; unique within the tenant. By default a UUID of version 7. */
  id: string;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** Version of the stored form; see `STORAGE_VERSION`. */
  storageVersion: number;
  /** Working directory of the agent; up to 4,096 bytes of UTF-8. */
  cwd?: string;
  /** The session that this one was forked from, or that its creator named. It need not exist. */
  parentSessionId?: string;
  /**
   * Path of the parent's file, if an imported archive named a file that could not be read; up to 4,096 bytes of
   * UTF-8.
   */
  legacyParentSessionPath?: string;
}

/** Makes the ids of new entries. */
export interface IdGenerator {
  /**
   * Returns an id that the session does not have yet. `timestampMs` is the time that a time-ordered id encodes, in
   * milliseconds since the epoch; default: now.
   */
  next(timestampMs?: number): string;
}

/** Selects entries of a whole session, on any branch, in the order of their `seq`. */
export interface EntryQuery {
  /** Only entries of this type. */
  type?: EntryType;
  /** Only entries with this custom type, whatever their `type`. */
  customType?: string;
  /** By `seq`: oldest first (`asc`) or newest first (`desc`, the default). */
  order?: "asc" | "desc";
  /** At most this many entries; default: all. A limit below 1 finds nothing. */
  limit?: number;
  /** Exclusive: finds entries after (`asc`) or before (`desc`) this `seq`. */
  cursor?: EntryCursor;
}

/**
 * What can be read from a session, by the session itself, by a storage and within a mutation. Every method rejects
 * with the reason of the context's abort signal once that is aborted.
 */
export interface SessionReader {
  /**
   * The entries with these ids, in the order of `ids`; ids that the session does not have are left out.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError when `ids` is not an array
   */
  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>>;
  /**
   * Number of messages on all branches, and the sum of the usage ledger.
   *
   * @throws SessionClosedError, SessionNotFoundError when the session was deleted
   */
  getStats(context: Context): Promise<SessionStats>;
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
}

/**
 * A read–decide–write step that no other writer can slip into: its commit succeeds only if nobody else has committed
 * since its first read. After `end` every method but `end` rejects with MutationEndedError.
 */
export interface SessionMutation extends SessionReader {
  /**
   * Commits all writes or none, once per mutation: a second attempt rejects, also after a failed one. An empty commit
   * is legal and changes nothing.
   *
   * @returns the `seq` of each write, and the session's totals right after this commit
   * @throws SessionConflictError when another writer has committed since the first read of this mutation
   * @throws MutationCommittedError, MutationEndedError, PendingMessageError and what `Storage.commit` throws
   */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
  /** Waits for the commit, if there is one, and lets the next mutation in. May be called again; never rejects. */
  end(context: Context): Promise<void>;
}

/**
 * What the callback of `session.mutate` reads and commits through: a {@link SessionMutation} that ends with the
 * callback.
 */
export type SessionMutator = Omit<SessionMutation, "end">;

/** Reads, decides and commits at most once. It may run several times, so it must have no other effects. */
export type SessionMutationCallback<T> = (mutator: SessionMutator, context: Context) => T | Promise<T>;

/**
 * A named path through the tree: the entries from its tip up to a root. It exists as long as its tip value does; get
 * it with `session.branch` or `session.createBranch`.
 */
export interface Branch {
  /** 1 to 1,024 bytes of UTF-8. */
  readonly name: string;
  /**
   * Id of the last entry; `null` while the branch is empty.
   *
   * @throws SessionClosedError, BranchNotFoundError
   */
  getTipId(context: Context): Promise<string | null>;
  /**
   * Entries on the branch, newest first by default; all of them without a query.
   *
   * @throws SessionClosedError, BranchNotFoundError, UnknownEntryError when `query.start` is not an entry of the
   *   session, InvalidTextError, InvalidOptionError
   */
  findEntries(query: BranchScan | undefined, context: Context): Promise<Entry[]>;
  /**
   * The first entry that {@link Branch.findEntries} would find; `undefined` if there is none.
   *
   * @throws SessionClosedError, BranchNotFoundError, UnknownEntryError when `query.start` is not an entry of the
   *   session, InvalidTextError, InvalidOptionError
   */
  findEntry(query: BranchScan | undefined, context: Context): Promise<Entry | undefined>;
  /**
   * Appends a message at the tip and moves the tip to it, in one commit that is repeated when another writer comes
   * first.
   *
   * @returns the new entry's id
   * @throws PendingMessageError when the message's stop reason is `pending`
   * @throws SessionClosedError, BranchNotFoundError, and what {@link Session.mutate} and `Storage.commit` throw
   */
  appendMessage(message: AgentMessage, context: Context): Promise<string>;
  /**
   * Appends a custom entry at the tip and moves the tip to it, in one commit that is repeated when another writer
   * comes first. `customType` is up to 512 bytes of UTF-8; without `data` the entry has none.
   *
   * @returns the new entry's id
   * @throws SessionClosedError, BranchNotFoundError, and what {@link Session.mutate} and `Storage.commit` throw
   */
  appendCustomEntry(customType: string, data: JsonValue | undefined, context: Context): Promise<string>;
}

/**
 * An open session: its tree of entries, its current values and lists, and its usage ledger. Writes of one session
 * object run one after the other; writes of others, in this or another process, never slip into a mutation.
 */
export interface Session<TMetadata extends SessionMetadata = SessionMetadata> extends SessionReader {
  /** As it was when the session was opened. */
  readonly metadata: TMetadata;
  /** Makes the ids of entries that branches append; by default UUIDs of version 7. */
  readonly idGenerator: IdGenerator;
  /**
   * The entry with this id, on any branch; `undefined` if there is none.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  getEntry(id: string, context: Context): Promise<Entry | undefined>;
  /**
   * The session's name; `undefined` if it has none.
   *
   * @throws SessionClosedError
   */
  getName(context: Context): Promise<string | undefined>;
  /**
   * The label of an entry; `undefined` if it has none.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  getLabel(targetId: string, context: Context): Promise<string | undefined>;
  /**
   * Entries of the whole session, on any branch, newest first by default; all of them without a query.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError
   */
  findEntries(query: EntryQuery | undefined, context: Context): Promise<Entry[]>;
  /**
   * The first entry that {@link Session.findEntries} would find; `undefined` if there is none.
   *
   * @throws SessionClosedError, InvalidTextError, InvalidOptionError
   */
  findEntry(query: EntryQuery | undefined, context: Context): Promise<Entry | undefined>;
  /**
   * The branch with this name; `undefined` if there is none. Reads its tip.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  branch(name: string, context: Context): Promise<Branch | undefined>;
  /**
   * Creates a branch whose tip is the entry `at`, or an empty one for `null`. The name is 1 to 1,024 bytes of UTF-8.
   *
   * @throws BranchExistsError, UnknownEntryError when `at` is not an entry of the session
   * @throws SessionClosedError, InvalidTextError, and what {@link Session.mutate} and `Storage.commit` throw
   */
  createBranch(name: string, at: string | null, context: Context): Promise<Branch>;
  /**
   * Begins a mutation that the caller ends itself, with `end()`; until then the other mutations of this object wait.
   * Its `commit` rejects with SessionConflictError if another writer has committed since its first read. Prefer
   * {@link Session.mutate}, which tries again.
   *
   * @throws SessionClosedError, or the reason of the abort signal while waiting
   */
  beginMutation(context: Context): Promise<SessionMutation>;
  /**
   * Runs the callback as one mutation that no other writer, in this process or another, can slip into. If one has
   * committed since the callback's first read, the callback's commit changes nothing and the callback runs again,
   * with new reads, up to 100 times. Within it use the mutator: writing methods of the session would wait for the
   * callback.
   *
   * @returns what the callback returns
   * @throws SessionClosedError, CommitContentionError after 100 attempts, and what the callback throws
   * @example
   * await session.mutate(async (mutator) => {
   *   const count = (await mutator.getValue(counter, context))?.value ?? 0;
   *   await mutator.commit([setValue(counter, count + 1)], context);
   * }, context);
   */
  mutate<T>(mutation: SessionMutationCallback<T>, context: Context): Promise<T>;
  /**
   * Sets or overwrites the value at an address, in a commit of its own. `next` is any JSON value, `null` included.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  setValue<T>(address: Value<T>, next: NoInfer<T>, context: Context): Promise<void>;
  /**
   * Deletes the value at an address, in a commit of its own; nothing happens if none is set.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  deleteValue<T>(address: Value<T>, context: Context): Promise<void>;
  /**
   * Appends one element to a list, in a commit of its own. The element is any JSON value, `null` included.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  appendList<T>(address: ValueList<T>, element: NoInfer<T>, context: Context): Promise<void>;
  /**
   * Deletes a list with all its elements, in a commit of its own.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  deleteList<T>(address: ValueList<T>, context: Context): Promise<void>;
  /**
   * Sets the session's name, any string; `undefined` removes it.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  setName(name: string | undefined, context: Context): Promise<void>;
  /**
   * Sets the label of an entry, any string; `undefined` removes it. Whether the entry exists is not checked.
   *
   * @throws SessionClosedError, and what `Storage.commit` throws
   */
  setLabel(targetId: string, label: string | undefined, context: Context): Promise<void>;
  /**
   * Admits nothing more, at once; resolves when everything that was admitted has finished. A mutation that was begun
   * must be ended first. Closing again waits for the same end.
   */
  close(context: Context): Promise<void>;
}

/** What a new session starts with. */
export interface SessionCreateOptions {
  /** 1 to 256 bytes of UTF-8. Default: a new UUID of version 7. */
  id?: string;
  /** The session that this one continues or was split off from, 1 to 256 bytes of UTF-8; it need not exist. */
  parentSessionId?: string;
}

/**
 * What a fork copies. A fork keeps the ids and `seq` of what it copies, starts with an empty usage ledger and idle
 * lanes, and leaves out what belongs to operations (`pi.op.*`, `pi.pending.*`, `pi.result`).
 */
export type ForkOptions =
  | {
      /** One path of one lane, under the same branch name. */
      scope: "branch";
      /** Name of the branch; it must be a lane. */
      branch: string;
      /** An entry on the branch, where the copy ends. Default: the branch's tip. */
      entryId?: string;
      /** Whether the copy ends with that entry (`at`, the default) or with its parent (`before`). */
      position?: "before" | "at";
      /** Id of the new session, 1 to 256 bytes of UTF-8. Default: a new UUID of version 7. */
      id?: string;
    }
  | {
      /** All entries and all branches. */
      scope: "tree";
      /** Id of the new session, 1 to 256 bytes of UTF-8. Default: a new UUID of version 7. */
      id?: string;
    };

/** A collection of sessions, independent of where they are stored. */
export interface SessionRepo<
  TMetadata extends SessionMetadata = SessionMetadata,
  TCreateOptions extends { id?: string; parentSessionId?: string } = SessionCreateOptions,
  TListOptions = void,
> {
  /**
   * Creates an empty session, without branches, and opens it.
   *
   * @throws SessionExistsError, InvalidTextError
   */
  create(options: TCreateOptions, context: Context): Promise<Session<TMetadata>>;
  /**
   * Opens a session.
   *
   * @throws SessionNotFoundError, SessionOpenError when this object already holds it open, SessionVersionError,
   *   InvalidTextError
   */
  open(metadata: TMetadata, context: Context): Promise<Session<TMetadata>>;
  /** Metadata of all sessions, newest first. */
  list(options: TListOptions | undefined, context: Context): Promise<TMetadata[]>;
  /**
   * Deletes a session that is not open here, with everything in it. Its forks stay.
   *
   * @throws SessionNotFoundError, SessionOpenError, InvalidTextError
   */
  delete(metadata: TMetadata, context: Context): Promise<void>;
  /**
   * Copies a session, open or not, and opens the copy.
   *
   * @throws SessionNotFoundError, SessionExistsError, ForkError, InvalidTextError, InvalidOptionError
   */
  fork(source: TMetadata, options: ForkOptions, context: Context): Promise<Session<TMetadata>>;
}
