import type { Context } from "../contract/context.ts";
import {
  MutationCommittedError,
  MutationEndedError,
  PendingMessageError,
  SessionConflictError,
} from "../contract/errors.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionMutation } from "../contract/session.ts";
import type { StorageTurn } from "../contract/storage.ts";
import type { CommitResult, Write } from "../contract/write.ts";
import { StorageReader } from "./reader.ts";

/** One turn on the mutation line of a session. */
export class StorageMutation extends StorageReader implements SessionMutation {
  readonly #turn: StorageTurn;
  readonly #leaveLine: () => void;
  #hasConflict = false;
  #commit: Promise<CommitResult> | undefined;
  #ended: Promise<void> | undefined;

  constructor(turn: StorageTurn, leaveLine: () => void) {
    super(turn);
    this.#turn = turn;
    this.#leaveLine = leaveLine;
  }

  /** Its commit rested on what was no longer true. */
  get hasConflict(): boolean {
    return this.#hasConflict;
  }

  async recallTip(branch: string, context: Context): Promise<string | null | undefined> {
    this.assertUsable();
    return this.#turn.recallTip(branch, context);
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
    try {
      return await this.#turn.commit(writes, context);
    } catch (error) {
      this.#hasConflict = error instanceof SessionConflictError;
      throw error;
    }
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
