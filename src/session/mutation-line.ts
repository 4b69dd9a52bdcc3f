import type { Context } from "../contract/context.ts";

/** Lets one mutation of a session in at a time, in the order of their arrival. */
export class MutationLine {
  #tail: Promise<void> = Promise.resolve();
  #sealed: Error | undefined;

  /**
   * Waits for its turn. Resolves to the function that ends it. Rejects once the line is sealed, and with the
   * reason of the abort signal if that comes first.
   */
  async enter(context: Context): Promise<() => void> {
    const signal = context.abortSignal;
    this.#assertUnsealed();
    signal?.throwIfAborted();
    const before = this.#tail;
    const { promise: ended, resolve: leave } = Promise.withResolvers<void>();
    this.#tail = before.then(() => ended);
    try {
      await (signal === undefined ? before : beforeAbort(before, signal));
      this.#assertUnsealed();
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Turns away all who wait and all who come; resolves when the running mutation has ended. */
  seal(error: Error): Promise<void> {
    this.#sealed ??= error;
    return this.#tail;
  }

  #assertUnsealed(): void {
    if (this.#sealed !== undefined) throw this.#sealed;
  }
}

function beforeAbort(turn: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  return Promise.race([turn, aborted]).finally(() => signal.removeEventListener("abort", onAbort));
}
