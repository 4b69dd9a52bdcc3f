/** Lets one mutation of a session in at a time, in the order of their arrival. */
export class MutationLine {
  #tail: Promise<void> = Promise.resolve();
  #sealed: Error | undefined;

  /** Waits for its turn. Resolves to the function that ends it. Rejects once the line is sealed. */
  async enter(): Promise<() => void> {
    this.#assertUnsealed();
    const before = this.#tail;
    const { promise: ended, resolve: leave } = Promise.withResolvers<void>();
    this.#tail = before.then(() => ended);
    await before;
    if (this.#sealed !== undefined) leave();
    this.#assertUnsealed();
    return leave;
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
