/**
 * The door of something that can be closed: lets operations in until it closes, and closes
 * when all that were let in have finished.
 */
export class Admission {
  readonly #closedError: () => Error;
  readonly #running = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor(closedError: () => Error) {
    this.#closedError = closedError;
  }

  get isOpen(): boolean {
    return this.#closing === undefined;
  }

  assertOpen(): void {
    if (!this.isOpen) throw this.#closedError();
  }

  async run<T>(operation: () => Promise<T>): Promise<T> {
    this.assertOpen();
    const running = operation();
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  /** Closes the door at once, drains, then runs `afterwards`. Closing again waits for the same end. */
  close(afterwards: () => void | Promise<void> = () => {}): Promise<void> {
    this.#closing ??= Promise.allSettled([...this.#running]).then(afterwards);
    return this.#closing;
  }
}
