import { COST_FIELDS, OPTIONAL_TOKEN_FIELDS, TOKEN_FIELDS, type Usage } from "../contract/usage.ts";
import type { V3RetainedRecord, V3Usage } from "./v3-record.ts";
import { type Spending, spendingOf } from "./v3-usage.ts";

/** What they are made of takes some 5 MB, however large the file is. */
const MAX_ROWS = 8_192;
const MAX_DETAILS_LENGTH = 1_000;

/** What a record spent, and its line. */
export interface KeptSpending {
  readonly spending: Spending;
  readonly line: number;
}

/** What the records of a file spent, kept while it is read, so that a file need not be read again unless it is large. */
export class V3KeptUsage {
  #rows: KeptSpending[] | undefined = [];

  /** `undefined` if it is too much to be kept. */
  get rows(): readonly KeptSpending[] | undefined {
    return this.#rows;
  }

  add(record: V3RetainedRecord | V3Usage, line: number): void {
    if (this.#rows === undefined) return;
    const spending = spendingOf(record);
    if (this.#rows.length < MAX_ROWS && isSmall(spending)) this.#rows.push({ spending, line });
    else this.#rows = undefined;
  }
}

/** Other programs may have put anything into what they say of usage. */
function isSmall({ record, row: { usage, details } }: Spending): boolean {
  if (Object.keys(usage).length !== fieldsOf(usage)) return false;
  if (Object.keys(usage.cost).length !== COST_FIELDS.length) return false;
  return record.type !== "usage" || JSON.stringify(details).length <= MAX_DETAILS_LENGTH;
}

/** How many fields it has if it has none but those of the ledger. */
function fieldsOf(usage: Usage): number {
  const optional = OPTIONAL_TOKEN_FIELDS.filter((field) => usage[field] !== undefined);
  return TOKEN_FIELDS.length + optional.length + 1; // and the cost
}
