import type { Entry } from "../contract/entry.ts";

/**
 * Finds the run of each entry of a session whose entries come all, and parents before their children. Remembers the
 * ends of the runs only: there are as many as the tree has leaves.
 */
export class Runs {
  /** Entries without a child, with the number of their run. */
  readonly #ends = new Map<string, number>();

  place({ id, parentId, seq }: Pick<Entry, "id" | "parentId" | "seq">): number {
    const run = parentId === null ? undefined : this.#ends.get(parentId);
    if (run !== undefined) this.#ends.delete(parentId as string);
    this.#ends.set(id, run ?? seq);
    return run ?? seq;
  }
}
