/**
 * Has files that are read at the same time but hold the same session wait for each other, in the order in which they
 * were found: so the first of them is stored, as it would be without parallelism.
 */
export class SessionTurns {
  /** Settles when every file so far has said which session it holds. */
  #announced: Promise<void> = Promise.resolve();
  /** The last file of each session that is being read. */
  readonly #last = new Map<string, Promise<void>>();

  /** Call it for the files in their order. */
  next(): SessionTurn {
    const earlier = this.#announced;
    const own = Promise.withResolvers<void>();
    this.#announced = earlier.then(() => own.promise);
    return new SessionTurn(this.#last, earlier, own.resolve);
  }
}

export class SessionTurn implements Disposable {
  readonly #last: Map<string, Promise<void>>;
  readonly #earlier: Promise<void>;
  readonly #announce: () => void;
  readonly #end = Promise.withResolvers<void>();
  #sessionIds: readonly string[] = [];

  constructor(last: Map<string, Promise<void>>, earlier: Promise<void>, announce: () => void) {
    this.#last = last;
    this.#earlier = earlier;
    this.#announce = announce;
  }

  /** Waits until no earlier file of these sessions is being read. Once it has them, taking them again does nothing. */
  async take(...sessionIds: readonly string[]): Promise<void> {
    if (this.#sessionIds.length > 0) return;
    await this.#earlier;
    const before = sessionIds.map((id) => this.#last.get(id));
    for (const id of sessionIds) this.#last.set(id, this.#end.promise);
    this.#sessionIds = sessionIds;
    this.#announce();
    await Promise.all(before);
  }

  /** The file is done with, whether it held a session or not. */
  [Symbol.dispose](): void {
    this.#announce();
    this.#end.resolve();
    for (const id of this.#sessionIds) if (this.#last.get(id) === this.#end.promise) this.#last.delete(id);
  }
}
