import { LineFault, quoted } from "./errors.ts";
import type { LineFaults } from "./line-faults.ts";
import { NONE, type V3Index } from "./v3-index.ts";
import type { V3Compaction, V3Record } from "./v3-record.ts";

/** Finds the earlier records that records name. */
export class V3References {
  readonly #index: V3Index;
  readonly #faults: LineFaults;

  constructor(index: V3Index, faults: LineFaults) {
    this.#index = index;
    this.#faults = faults;
  }

  /** The entry that stands for the one which a summary names; `null` of any other record. */
  fromId(record: V3Record, number: number): string | null {
    if (record.type !== "branch_summary") return null;
    const { fromId } = record;
    // A summary of a branch that began above the first entry says "root" instead of null.
    if (fromId === "root") return null;
    if (this.#faults.isLenient && typeof fromId !== "string") return null;
    // Nothing relies on that entry. Where pi takes a branch out into a file of its own, it leaves the other one behind.
    if (typeof fromId === "string" && !this.#index.ids.has(fromId)) return fromId;
    return this.#try(number, () => this.#index.resolve("the summarized entry", fromId)) ?? null;
  }

  /** The numbers of the records from the first one that a compaction keeps to the one before it. */
  kept(compaction: V3Compaction, number: number): number[] {
    return this.#try(number, () => this.#kept(compaction, number)) ?? [];
  }

  #kept({ id, firstKeptEntryId }: V3Compaction, number: number): number[] {
    if (firstKeptEntryId === id) return [];
    const firstKept = this.#index.ids.find(firstKeptEntryId);
    const kept: number[] = [];
    for (let at = this.#index.parent(number); at !== NONE; at = this.#index.parent(at)) {
      kept.push(at);
      if (at === firstKept) return kept.reverse();
    }
    const reason = `the first kept entry ${quoted(firstKeptEntryId)} is not on the branch of the compaction`;
    throw new LineFault("missing_reference", reason);
  }

  #try<T>(number: number, work: () => T): T | undefined {
    return this.#faults.try(this.#index.line(number), work);
  }
}
