import type { Context } from "../contract/context.ts";
import { MutationCommittedError, MutationEndedError, PendingMessageError } from "../contract/errors.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionMutation } from "../contract/session.ts";
import type { Storage } from "../contract/storage.ts";
import type { CommitResult, Write } from "../contract/write.ts";
import { StorageReader } from "./reader.ts";

/** One turn on the mutation line of a session. */
export class StorageMutation extends StorageReader implements SessionMutation {
  readonly #storage: Storage;
  readonly #leaveLine: () => void;
  #commit: Promise<CommitResult> | undefined;
  #ended: Promise<void> | undefined;

  constructor(storage: Storage, leaveLine: () => void) {
    super(storage);
    this.#storage = storage;
    this.#leaveLine = leaveLine;
  }

  async commit(writes: Write[], context: Context): Promise<CommitResult> {
    this.assertUsable();
    if (this.#commit !== undefined) throw new MutationCommittedError();
    this.#commit = this.#commitSettled(writes, context);
    return this.#commit;
  }

  end(_context: Context): Promise<void> {
    this.#ended ??= Promise.allSettled([this.#commit]).then(() => this.#leaveLine());
    return this.#ended;
  }

  async #commitSettled(writes: Write[], context: Context): Promise<CommitResult> {
    if (Array.isArray(writes) && hasPendingMessage(writes)) throw new PendingMessageError();
    return this.#storage.commit(writes, context);
  }

  protected override assertUsable(): void {
    if (this.#ended !== undefined) throw new MutationEndedError();
  }
}

/** A message that still streams has no final content, so it must not become immutable. */
export function isPending(message: AgentMessage): boolean {
  return message?.role === "assistant" && message.stopReason === "pending";
}

function hasPendingMessage(writes: readonly Write[]): boolean {
  return writes.some(
    (write) => write?.kind === "entry" && write.entry?.type === "message" && isPending(write.entry.message),
  );
}
