import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "./address.ts";
import type { Context } from "./context.ts";
import type { Entry, EntryType } from "./entry.ts";
import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";
import type { BranchScan, EntryCursor, StorageBranchScan } from "./storage.ts";
import type { SessionStats } from "./usage.ts";
import type { CommitResult, Write } from "./write.ts";

export interface SessionMetadata {
  id: string;
  /** Milliseconds since the epoch. */
  createdAt: number;
  storageVersion: number;
  cwd?: string;
  parentSessionId?: string;
  /** Where the parent was, if an imported archive named a file that could not be read. */
  legacyParentSessionPath?: string;
}

export interface IdGenerator {
  next(timestampMs?: number): string;
}

export interface EntryQuery {
  type?: EntryType;
  customType?: string;
  /** Default `desc`. */
  order?: "asc" | "desc";
  limit?: number;
  /** Exclusive. */
  cursor?: EntryCursor;
}

export interface SessionReader {
  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>>;
  getStats(context: Context): Promise<SessionStats>;
  getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined>;
  scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]>;
  readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]>;
  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]>;
}

/** A read–decide–write step that no other writer can slip into. */
export interface SessionMutation extends SessionReader {
  /** At most one attempt; a second one rejects. */
  commit(writes: Write[], context: Context): Promise<CommitResult>;
  /** Waits for the commit if there is one, and lets the next mutation in. */
  end(context: Context): Promise<void>;
}

export type SessionMutator = Omit<SessionMutation, "end">;

export type SessionMutationCallback<T> = (mutator: SessionMutator, context: Context) => T | Promise<T>;

export interface Branch {
  readonly name: string;
  getTipId(context: Context): Promise<string | null>;
  findEntries(query: BranchScan | undefined, context: Context): Promise<Entry[]>;
  findEntry(query: BranchScan | undefined, context: Context): Promise<Entry | undefined>;
  /** Appends at the tip and moves it. Resolves to the new entry's id. */
  appendMessage(message: AgentMessage, context: Context): Promise<string>;
  appendCustomEntry(customType: string, data: JsonValue | undefined, context: Context): Promise<string>;
}

export interface Session<TMetadata extends SessionMetadata = SessionMetadata> extends SessionReader {
  readonly metadata: TMetadata;
  readonly idGenerator: IdGenerator;
  getEntry(id: string, context: Context): Promise<Entry | undefined>;
  getName(context: Context): Promise<string | undefined>;
  getLabel(targetId: string, context: Context): Promise<string | undefined>;
  findEntries(query: EntryQuery | undefined, context: Context): Promise<Entry[]>;
  findEntry(query: EntryQuery | undefined, context: Context): Promise<Entry | undefined>;
  branch(name: string, context: Context): Promise<Branch | undefined>;
  createBranch(name: string, at: string | null, context: Context): Promise<Branch>;
  /** The same step by step. Where another writer slips in, its commit rejects with SessionConflictError. */
  beginMutation(context: Context): Promise<SessionMutation>;
  /**
   * Runs the callback as one mutation that no other writer can slip into, in this process or another: where one did,
   * the callback runs again, with new reads, before anything is committed. Inside it use the mutator: a writer of the session itself
   * would wait for this callback to end.
   */
  mutate<T>(mutation: SessionMutationCallback<T>, context: Context): Promise<T>;
  setValue<T>(address: Value<T>, next: NoInfer<T>, context: Context): Promise<void>;
  deleteValue<T>(address: Value<T>, context: Context): Promise<void>;
  appendList<T>(address: ValueList<T>, element: NoInfer<T>, context: Context): Promise<void>;
  deleteList<T>(address: ValueList<T>, context: Context): Promise<void>;
  /** `undefined` removes the name. */
  setName(name: string | undefined, context: Context): Promise<void>;
  /** `undefined` removes the label. */
  setLabel(targetId: string, label: string | undefined, context: Context): Promise<void>;
  close(context: Context): Promise<void>;
}

export interface SessionCreateOptions {
  id?: string;
  parentSessionId?: string;
}

export type ForkOptions =
  | {
      /** One path of a lane, under the same branch name. */
      scope: "branch";
      branch: string;
      /** An entry on the branch. Default: its tip. */
      entryId?: string;
      /** Whether the fork ends with that entry (`at`, the default) or with its parent. */
      position?: "before" | "at";
      id?: string;
    }
  | {
      /** All entries and all branches. */
      scope: "tree";
      id?: string;
    };

export interface SessionRepo<
  TMetadata extends SessionMetadata = SessionMetadata,
  TCreateOptions extends { id?: string; parentSessionId?: string } = SessionCreateOptions,
  TListOptions = void,
> {
  create(options: TCreateOptions, context: Context): Promise<Session<TMetadata>>;
  open(metadata: TMetadata, context: Context): Promise<Session<TMetadata>>;
  list(options: TListOptions | undefined, context: Context): Promise<TMetadata[]>;
  delete(metadata: TMetadata, context: Context): Promise<void>;
  fork(source: TMetadata, options: ForkOptions, context: Context): Promise<Session<TMetadata>>;
}
