import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import { MutationCommittedError, MutationEndedError, PendingMessageError } from "../contract/errors.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionMutation } from "../contract/session.ts";
import type { Storage, StorageBranchScan } from "../contract/storage.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { CommitResult, Write } from "../contract/write.ts";

/** One turn on the mutation line of a session. */
export class StorageMutation implements SessionMutation {
  readonly #storage: Storage;
  readonly #leaveLine: () => void;
  #commit: Promise<CommitResult> | undefined;
  #ended: Promise<void> | undefined;

  constructor(storage: Storage, leaveLine: () => void) {
    this.#storage = storage;
    this.#leaveLine = leaveLine;
  }

  async commit(writes: Write[], context: Context): Promise<CommitResult> {
    this.#assertActive();
    if (this.#commit !== undefined) throw new MutationCommittedError();
    this.#commit = assertSettled(writes) ?? this.#storage.commit(writes, context);
    return this.#commit;
  }

  end(_context: Context): Promise<void> {
    this.#ended ??= Promise.allSettled([this.#commit]).then(() => this.#leaveLine());
    return this.#ended;
  }

  async getEntries(ids: string[], context: Context): Promise<Map<string, Entry>> {
    this.#assertActive();
    return this.#storage.getEntries(ids, context);
  }

  async getStats(context: Context): Promise<SessionStats> {
    this.#assertActive();
    return this.#storage.getStats(context);
  }

  async getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined> {
    this.#assertActive();
    return this.#storage.getValue(address, context);
  }

  async scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]> {
    this.#assertActive();
    return this.#storage.scanValues(prefix, context);
  }

  async readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]> {
    this.#assertActive();
    return this.#storage.readList(address, options, context);
  }

  async scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]> {
    this.#assertActive();
    return this.#storage.scanBranch(query, context);
  }

  #assertActive(): void {
    if (this.#ended !== undefined) throw new MutationEndedError();
  }
}

/** A message that still streams has no final content, so it must not become immutable. */
export function isPending(message: AgentMessage): boolean {
  return message.role === "assistant" && message.stopReason === "pending";
}

function assertSettled(writes: readonly Write[]): Promise<never> | undefined {
  for (const write of writes) {
    if (write.kind === "entry" && write.entry.type === "message" && isPending(write.entry.message)) {
      return Promise.reject(new PendingMessageError());
    }
  }
  return undefined;
}
