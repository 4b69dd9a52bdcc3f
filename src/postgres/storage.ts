import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry, EntryStructure } from "../contract/entry.ts";
import { SessionClosedError } from "../contract/errors.ts";
import type {
  EntryScan,
  SharedStorage,
  Storage,
  StorageBranchScan,
  StorageTurn,
  TipScan,
  UsageScan,
} from "../contract/storage.ts";
import type { SessionStats } from "../contract/usage.ts";
import { assertWrites, type CommitResult, type UsageRow, type Write } from "../contract/write.ts";
import { Admission } from "../session/admission.ts";
import { getChildren } from "./children.ts";
import { commitSession, type Writer } from "./commit-session.ts";
import { getEntries, scanEntries } from "./entries.ts";
import { scanBranch, scanBranchStructure, scanTip } from "./scan-branch.ts";
import { readHead, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { assertNotAborted, type Tables } from "./transaction.ts";
import { PgTurn } from "./turn.ts";
import { scanUsage } from "./usage-ledger.ts";
import { getValue, readList, scanValues } from "./values.ts";

/**
 * {@link Storage} of one session in PostgreSQL. Any number of them, in any process, may share a session. Get one from
 * `repo.createStorage` or `repo.openStorage`.
 */
export class PgStorage implements SharedStorage {
  readonly #tables: Tables;
  readonly #key: SessionKey;
  readonly #writer: Writer;
  readonly #admission: Admission;
  readonly #onClose: () => void;
  #lastCommit: Promise<unknown> = Promise.resolve();

  /** @internal Get one from a repository. */
  constructor(tables: Tables, writer: Writer, onClose: () => void = () => {}) {
    this.#tables = tables;
    this.#key = writer.key;
    this.#writer = writer;
    this.#onClose = onClose;
    this.#admission = new Admission(() => new SessionClosedError(this.#key.sessionId));
  }

  /**
   * Commits all writes or none, and gives each a `seq`. Commits of one storage run one after the other. One that
   * another writer has overtaken is sent again; one whose connection broke is sent again, and happens once.
   *
   * @returns the `seq` of each write, and the session's totals right after this commit
   * @throws InvalidTextError, InvalidUsageError, InvalidWriteError, DuplicateIdError, MissingParentError
   * @throws SessionClosedError, SessionNotFoundError when the session was deleted, SessionFencedError,
   *   TenantSuspendedError, TenantLimitError
   * @throws CommitContentionError when it is safe to retry, CommitOutcomeUnknownError when it is not
   */
  commit(writes: Write[], context: Context): Promise<CommitResult> {
    return this.#inOrder(writes, undefined, context);
  }

  beginTurn(): StorageTurn {
    return new PgTurn({
      tables: this.#tables,
      key: this.#key,
      remembered: () => this.#writer.head,
      admit: (operation) => this.#admission.run(operation),
      commit: (writes, basis, context) => this.#inOrder(writes, basis, context),
    });
  }

  getEntries(ids: string[], context: Context): Promise<Map<string, Entry>> {
    return this.#admission.run(() => getEntries(this.#tables, this.#key, ids, context));
  }

  getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined> {
    return this.#admission.run(() => getValue(this.#tables, this.#key, address, context));
  }

  scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]> {
    return this.#admission.run(() => scanValues(this.#tables, this.#key, prefix, context));
  }

  readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]> {
    return this.#admission.run(() => readList(this.#tables, this.#key, address, options, context));
  }

  scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]> {
    return this.#admission.run(() => scanBranch(this.#tables, this.#key, query, context));
  }

  scanTip(branch: string, query: TipScan, context: Context): Promise<Entry[] | undefined> {
    return this.#admission.run(() => scanTip(this.#tables, this.#key, branch, query, context));
  }

  scanBranchStructure(query: StorageBranchScan, context: Context): Promise<EntryStructure[]> {
    return this.#admission.run(() => scanBranchStructure(this.#tables, this.#key, query, context));
  }

  scanEntries(query: EntryScan, context: Context): Promise<Entry[]> {
    return this.#admission.run(() => scanEntries(this.#tables, this.#key, query, context));
  }

  /**
   * The entries that follow one entry (`null`: the roots), in the order of their `seq`. `limit`: at most this many;
   * default: all; below 1 finds nothing.
   *
   * @throws SessionClosedError, InvalidTextError
   */
  getChildren(parentId: string | null, options: { limit?: number }, context: Context): Promise<Entry[]> {
    return this.#admission.run(() => getChildren(this.#tables, this.#key, parentId, options, context));
  }

  scanUsage(query: UsageScan, context: Context): Promise<UsageRow[]> {
    return this.#admission.run(() => scanUsage(this.#tables, this.#key, query, context));
  }

  getStats(context: Context): Promise<SessionStats> {
    return this.#admission.run(async () => (await readHead(this.#tables, this.#key, context)).stats);
  }

  /** Waits until every commit that was admitted so far has succeeded or failed. Never rejects. */
  async settled(): Promise<void> {
    await this.#lastCommit;
  }

  close(_context: Context): Promise<void> {
    return this.#admission.close(this.#onClose);
  }

  /** One after the other, since each moves the head. */
  #inOrder(
    writes: readonly Write[],
    basis: SessionHead | undefined,
    context: Context,
  ): Promise<CommitResult> {
    return this.#admission.run(() => {
      const turn = this.#lastCommit.then(() => this.#commit(writes, basis, context));
      this.#lastCommit = turn.catch(() => {});
      return turn;
    });
  }

  async #commit(
    writes: readonly Write[],
    basis: SessionHead | undefined,
    context: Context,
  ): Promise<CommitResult> {
    assertNotAborted(context);
    assertWrites(writes);
    if (writes.length === 0) return this.#commitNothing(context);
    return commitSession(this.#tables, this.#writer, writes, basis, context);
  }

  async #commitNothing(context: Context): Promise<CommitResult> {
    const { nextSeq, stats } = await readHead(this.#tables, this.#key, context);
    return { firstSeq: nextSeq, seqs: [], timestamp: Date.now(), stats };
  }
}
