import { createHash } from "node:crypto";

/** Choices that follow from a seed and a name: the same again in every run, whatever else is chosen meanwhile. */
export class Random {
  readonly #name: string;
  #drawn = 0;

  constructor(seed: number, ...names: (string | number)[]) {
    this.#name = [seed, ...names].join(" ");
  }

  /** From 0 to less than 1. */
  next(): number {
    this.#drawn++;
    const digest = createHash("sha256").update(`${this.#name} ${this.#drawn}`).digest();
    return digest.readUInt32BE() / 2 ** 32;
  }

  /** A whole number from 0 to less than `limit`. */
  below(limit: number): number {
    return Math.trunc(this.next() * limit);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)] as T;
  }
}
