import { v7 as uuidv7 } from "uuid";
import { branchTip, entryLabel, sessionName, type Value, type ValueList } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import {
  BranchExistsError,
  BranchNotFoundError,
  CommitContentionError,
  PendingMessageError,
  SessionClosedError,
  UnknownEntryError,
} from "../contract/errors.ts";
import type {
  Branch,
  EntryQuery,
  IdGenerator,
  Session,
  SessionMetadata,
  SessionMutation,
  SessionMutationCallback,
} from "../contract/session.ts";
import type { Storage, TipScan } from "../contract/storage.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import { appendList, deleteList, deleteValue, insertEntry, setValue } from "../contract/write.ts";
import { backOff } from "./back-off.ts";
import { type BranchNode, limitToOne, StorageBranch } from "./branch.ts";
import { isPending, StorageMutation } from "./mutation.ts";
import { MutationLine } from "./mutation-line.ts";
import { StorageReader } from "./reader.ts";
import { sharedOf } from "./shared.ts";

/** Time-ordered ids (UUID version 7). */
export const UUID_V7_IDS: IdGenerator = {
  next: (timestampMs) => (timestampMs === undefined ? uuidv7() : uuidv7({ msecs: timestampMs })),
};

/** Options of a {@link StorageBackedSession}. */
export interface StorageBackedSessionOptions {
  /** Makes the ids of entries that branches append. Default: UUIDs of version 7. */
  idGenerator?: IdGenerator;
  /** Called once, when everything that was admitted has finished and the storage is closed. */
  onClose?: () => void;
}

/** Each lost attempt means that another writer has committed, so the session makes progress. */
const MAX_ATTEMPTS = 100;

async function attemptOnce<T>(
  mutator: StorageMutation,
  mutation: (mutator: StorageMutation, context: Context) => T | Promise<T>,
  context: Context,
): Promise<T> {
  try {
    return await mutation(mutator, context);
  } finally {
    await mutator.end(context);
  }
}

/**
 * The session contract on top of any {@link Storage}. `repo.create`, `repo.open` and `repo.fork` return one; make one
 * yourself for a storage of your own.
 */
export class StorageBackedSession<TMetadata extends SessionMetadata = SessionMetadata>
  extends StorageReader
  implements Session<TMetadata>
{
  readonly metadata: TMetadata;
  readonly idGenerator: IdGenerator;
  readonly #storage: Storage;
  readonly #shared: ReturnType<typeof sharedOf>;
  readonly #line = new MutationLine();
  readonly #branches = new Map<string, Branch>();
  readonly #onClose: () => void;
  #closing: Promise<void> | undefined;

  /** `metadata` is kept as it is; closing the session closes `storage`. */
  constructor(metadata: TMetadata, storage: Storage, options: StorageBackedSessionOptions = {}) {
    super(storage);
    this.metadata = metadata;
    this.#storage = storage;
    this.#shared = sharedOf(storage);
    this.idGenerator = options.idGenerator ?? UUID_V7_IDS;
    this.#onClose = options.onClose ?? (() => {});
  }

  async beginMutation(context: Context): Promise<SessionMutation> {
    this.assertUsable();
    const leave = await this.#line.enter(context);
    return new StorageMutation(this.#shared.beginTurn(), leave);
  }

  mutate<T>(mutation: SessionMutationCallback<T>, context: Context): Promise<T> {
    return this.#mutate(mutation, context);
  }

  /** Runs the mutation again, with new reads, as long as other writers come in between. */
  async #mutate<T>(
    mutation: (mutator: StorageMutation, context: Context) => T | Promise<T>,
    context: Context,
  ): Promise<T> {
    this.assertUsable();
    const leave = await this.#line.enter(context);
    try {
      for (let attempt = 1; ; attempt++) {
        const mutator = new StorageMutation(this.#shared.beginTurn(), () => {});
        const [outcome] = await Promise.allSettled([attemptOnce(mutator, mutation, context)]);
        if (!mutator.hasConflict) {
          if (outcome.status === "rejected") throw outcome.reason;
          return outcome.value;
        }
        if (attempt === MAX_ATTEMPTS) throw new CommitContentionError(MAX_ATTEMPTS);
        await backOff(attempt);
      }
    } finally {
      leave();
    }
  }

  async getEntry(id: string, context: Context): Promise<Entry | undefined> {
    return (await this.getEntries([id], context)).get(id);
  }

  async getName(context: Context): Promise<string | undefined> {
    return (await this.getValue(sessionName, context))?.value;
  }

  async getLabel(targetId: string, context: Context): Promise<string | undefined> {
    return (await this.getValue(entryLabel(targetId), context))?.value;
  }

  async findEntries(query: EntryQuery | undefined, context: Context): Promise<Entry[]> {
    this.assertUsable();
    const { cursor, order = "desc", ...filters } = query ?? {};
    const range =
      cursor === undefined ? {} : order === "asc" ? { fromSeq: cursor.seq + 1 } : { toSeq: cursor.seq - 1 };
    return this.#storage.scanEntries({ ...filters, order, ...range }, context);
  }

  async findEntry(query: EntryQuery | undefined, context: Context): Promise<Entry | undefined> {
    return (await this.findEntries(limitToOne(query), context))[0];
  }

  async branch(name: string, context: Context): Promise<Branch | undefined> {
    this.#assertBranchName(name);
    if ((await this.getValue(branchTip(name), context)) === undefined) return undefined;
    return this.#branchObject(name);
  }

  async createBranch(name: string, at: string | null, context: Context): Promise<Branch> {
    this.assertUsable();
    this.#assertBranchName(name);
    await this.mutate(async (mutator) => {
      if ((await mutator.getValue(branchTip(name), context)) !== undefined) throw new BranchExistsError(name);
      if (at !== null && !(await mutator.getEntries([at], context)).has(at)) throw new UnknownEntryError(at);
      await mutator.commit([setValue(branchTip(name), at)], context);
    }, context);
    return this.#branchObject(name);
  }

  async setValue<T>(address: Value<T>, next: NoInfer<T>, context: Context): Promise<void> {
    await this.mutate((mutator) => mutator.commit([setValue(address, next)], context), context);
  }

  async deleteValue<T>(address: Value<T>, context: Context): Promise<void> {
    await this.mutate((mutator) => mutator.commit([deleteValue(address)], context), context);
  }

  async appendList<T>(address: ValueList<T>, element: NoInfer<T>, context: Context): Promise<void> {
    await this.mutate((mutator) => mutator.commit([appendList(address, element)], context), context);
  }

  async deleteList<T>(address: ValueList<T>, context: Context): Promise<void> {
    await this.mutate((mutator) => mutator.commit([deleteList(address)], context), context);
  }

  setName(name: string | undefined, context: Context): Promise<void> {
    return name === undefined
      ? this.deleteValue(sessionName, context)
      : this.setValue(sessionName, name, context);
  }

  async setLabel(targetId: string, label: string | undefined, context: Context): Promise<void> {
    const address = entryLabel(targetId);
    await (label === undefined ? this.deleteValue(address, context) : this.setValue(address, label, context));
  }

  close(context: Context): Promise<void> {
    this.#closing ??= this.#drain(context);
    return this.#closing;
  }

  async #drain(context: Context): Promise<void> {
    try {
      await this.#line.seal(this.#closedError());
      await this.#storage.close(context);
    } finally {
      this.#onClose();
    }
  }

  #branchObject(name: string): Branch {
    const known = this.#branches.get(name);
    if (known !== undefined) return known;
    const branch = new StorageBranch(name, {
      getTipId: (context) => this.#getTipId(name, context),
      scanTip: (query, context) => this.#scanTip(name, query, context),
      scanBranch: (query, context) => this.scanBranch(query, context),
      append: (node, context) => this.#append(name, node, context),
    });
    this.#branches.set(name, branch);
    return branch;
  }

  async #getTipId(branch: string, context: Context): Promise<string | null> {
    const tip = await this.getValue(branchTip(branch), context);
    if (tip === undefined) throw new BranchNotFoundError(branch);
    return tip.value;
  }

  async #scanTip(branch: string, query: TipScan, context: Context): Promise<Entry[]> {
    this.assertUsable();
    const entries = await this.#shared.scanTip(branch, query, context);
    if (entries === undefined) throw new BranchNotFoundError(branch);
    return entries;
  }

  async #append(branch: string, node: BranchNode, context: Context): Promise<string> {
    this.assertUsable();
    if (node.type === "message" && isPending(node.message)) throw new PendingMessageError();
    const id = this.idGenerator.next();
    await this.#mutate(async (mutator) => {
      const tip = await mutator.recallTip(branch, context);
      if (tip === undefined) throw new BranchNotFoundError(branch);
      await mutator.commit(
        [insertEntry({ ...node, id, parentId: tip }), setValue(branchTip(branch), id)],
        context,
      );
    }, context);
    return id;
  }

  #assertBranchName(name: string): void {
    assertText("branch name", name, { maxBytes: TEXT_LIMITS.key, empty: false });
  }

  protected override assertUsable(): void {
    if (this.#closing !== undefined) throw this.#closedError();
  }

  #closedError(): SessionClosedError {
    return new SessionClosedError(this.metadata.id);
  }
}
