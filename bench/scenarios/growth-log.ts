import type { Growth } from "../report/line.ts";

/** Collects what the same work costs at different sizes. */
export class GrowthLog {
  readonly #measured = new Map<string, { entries: number; ms: number }[]>();

  add(work: string, entries: number, ms: number): void {
    this.#measured.set(work, [...(this.#measured.get(work) ?? []), { entries, ms }]);
  }

  all(): Growth[] {
    return [...this.#measured].map(([work, sizes]) => ({ work, sizes }));
  }
}
