import { type Kysely, sql } from "kysely";
import {
  addUsage,
  COST_FIELDS,
  emptyUsage,
  OPTIONAL_TOKEN_FIELDS,
  TOKEN_FIELDS,
  type Usage,
} from "../contract/usage.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { costOf, SPENT_COLUMNS, tokensOf } from "./usage-columns.ts";

export const LEDGER_ROWS_PER_READ = 1_000;

/** A larger `usage` has fields that mean nothing here, and is not fetched: its row is taken by its columns. */
const MAX_USAGE_BYTES = 16_384;

/** The next rows of the ledger after a `seq`, in their order. */
export function ledgerStatement(db: Kysely<DB>, key: SessionKey, after: number) {
  return db
    .selectFrom("usage_ledger")
    .select(["seq", ...SPENT_COLUMNS])
    .select(
      sql<
        string | null
      >`case when octet_length(usage::text) <= ${sql.lit(MAX_USAGE_BYTES)} then usage::text end`.as("usage"),
    )
    .where(isSession(key))
    .where("seq", ">", after)
    .orderBy("seq")
    .limit(LEDGER_ROWS_PER_READ);
}

type LedgerRow = Awaited<ReturnType<ReturnType<typeof ledgerStatement>["execute"]>>[number];

/**
 * Adds a ledger up as the commits did: what was handed in, in ledger order, with the same arithmetic. So the sum is
 * the same to the last bit.
 */
export class LedgerSum {
  usage: Usage = emptyUsage();
  /** Rows whose columns say something else than what was handed in. */
  differing = 0;
  firstDiffering: number | undefined;
  /** `seq` of the last row. */
  last = 0;

  add(rows: readonly LedgerRow[]): void {
    for (const row of rows) {
      const stored = usageOf(row);
      const given = row.usage === null ? stored : usageIn(row.usage);
      if (given === undefined || !isSame(given, stored)) {
        this.differing++;
        this.firstDiffering ??= row.seq;
      }
      this.usage = addUsage(this.usage, given ?? stored);
      this.last = row.seq;
    }
  }
}

function usageOf(row: LedgerRow): Usage {
  // Each cost was the shortest decimal of a double, so it is that double again.
  return { ...tokensOf(row), cost: costOf(row, Number) };
}

/** `undefined` where that is none that a commit would have taken. */
function usageIn(text: string): Usage | undefined {
  const usage = JSON.parse(text) as Usage | null;
  const numbers: unknown[] = [
    ...TOKEN_FIELDS.map((field) => usage?.[field]),
    ...COST_FIELDS.map((field) => usage?.cost?.[field]),
    ...OPTIONAL_TOKEN_FIELDS.map((field) => (usage?.[field] === undefined ? 0 : usage[field])),
  ];
  return numbers.every((number) => typeof number === "number") ? (usage as Usage) : undefined;
}

function isSame(left: Usage, right: Usage): boolean {
  return (
    TOKEN_FIELDS.every((field) => left[field] === right[field]) &&
    OPTIONAL_TOKEN_FIELDS.every((field) => left[field] === right[field]) &&
    COST_FIELDS.every((field) => left.cost[field] === right.cost[field])
  );
}
