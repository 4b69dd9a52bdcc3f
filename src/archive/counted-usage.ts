import { createHash } from "node:crypto";
import { COST_FIELDS, OPTIONAL_TOKEN_FIELDS, TOKEN_FIELDS, type Usage } from "../contract/usage.ts";
import { isZeroUsage } from "./imported-usage.ts";

/** Tells rows of the ledger that repeat the usage of an entry, which need no record of their own, from others. */
export class CountedUsage {
  /** By a hash of entry and usage: an imported session may have millions of entries before their rows. */
  readonly #uncounted = new Map<number, { isZero: boolean }>();

  /** The entry says that it spent this. */
  expect(entryId: string, usage: Usage): void {
    this.#uncounted.set(hash(entryId, usage), isZeroUsage(usage) ? ZERO : SPENT);
  }

  /** @returns whether this is the row of an entry that says the same */
  count(entryId: string, usage: Usage): boolean {
    return this.#uncounted.delete(hash(entryId, usage));
  }

  /** Entries that spent something of which there is no row. */
  get uncounted(): number {
    let count = 0;
    for (const { isZero } of this.#uncounted.values()) if (!isZero) count++;
    return count;
  }
}

const ZERO = { isZero: true };
const SPENT = { isZero: false };

function hash(entryId: string, usage: Usage): number {
  const numbers = [
    ...TOKEN_FIELDS.map((field) => usage[field]),
    ...OPTIONAL_TOKEN_FIELDS.map((field) => usage[field]),
    ...COST_FIELDS.map((field) => usage.cost[field]),
  ];
  return createHash("sha256").update(`${numbers.join()} ${entryId}`).digest().readUIntBE(0, 6);
}
