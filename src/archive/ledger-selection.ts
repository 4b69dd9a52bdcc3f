import { createHash } from "node:crypto";
import { TEXT_LIMITS } from "../contract/text.ts";
import { assertUsage, OPTIONAL_TOKEN_FIELDS, type Usage } from "../contract/usage.ts";
import { LineFault } from "./errors.ts";
import type { IdIndex } from "./id-index.ts";
import { importedUsage, isZeroUsage } from "./imported-usage.ts";
import { usageOf, type V3Record } from "./v3-record.ts";

/** Chooses the records that get a usage row, in file order. */
export class LedgerSelection {
  readonly #optionalFields = new Set<string>();

  /**
   * All that spent something; of the others, those that first have an optional field, which then is in the sum.
   *
   * @throws LineFault, InvalidUsageError
   */
  select(record: V3Record): boolean {
    const usage = importedUsage(usageOf(record));
    if (usage === undefined) {
      if (record.type === "usage") throw new LineFault("invalid_usage", "the usage record has no `usage`");
      return false;
    }
    assertUsage(usageId(record), usage);
    return this.#addsField(usage) || !isZeroUsage(usage) || record.type === "usage";
  }

  #addsField(usage: Usage): boolean {
    const known = this.#optionalFields.size;
    for (const field of OPTIONAL_TOKEN_FIELDS) {
      if (usage[field] !== undefined) this.#optionalFields.add(field);
    }
    return this.#optionalFields.size > known;
  }
}

/** The same for the same file, and that of no entry. */
export function usageId({ id, type }: Pick<V3Record, "id" | "type">, taken?: IdIndex): string {
  if (type === "usage") return id; // the record has no entry
  const ofEntry = `${id}:usage`;
  const base = Buffer.byteLength(ofEntry) + COUNTER_BYTES <= TEXT_LIMITS.id ? ofEntry : `usage:${sha256(id)}`;
  if (taken === undefined || !taken.has(base)) return base;
  for (let counter = 2; ; counter++) {
    if (!taken.has(`${base}:${counter}`)) return `${base}:${counter}`;
  }
}

const COUNTER_BYTES = 12;

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
