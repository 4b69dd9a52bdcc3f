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

export const LEDGER_ROWS_PER_READ = 1_000;

/** A larger `usage` has fields that mean nothing here, and is not fetched: its row is taken by its columns. */
const MAX_USAGE_BYTES = 16_384;

const COLUMNS = [
  "seq",
  "input",
  "output",
  "cache_read",
  "cache_write",
  "cache_write_1h",
  "reasoning",
  "total_tokens",
  "cost_input",
  "cost_output",
  "cost_cache_read",
  "cost_cache_write",
  "cost_total",
] as const;

/** The next rows of the ledger after a `seq`, in their order. */
export function ledgerStatement(db: Kysely<DB>, key: SessionKey, after: number) {
  return db
    .selectFrom("usage_ledger")
    .select(COLUMNS)
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
  return {
    input: row.input,
    output: row.output,
    cacheRead: row.cache_read,
    cacheWrite: row.cache_write,
    ...(row.cache_write_1h === null ? {} : { cacheWrite1h: row.cache_write_1h }),
    ...(row.reasoning === null ? {} : { reasoning: row.reasoning }),
    totalTokens: row.total_tokens,
    // Each was the shortest decimal of a double, so it is that double again.
    cost: {
      input: Number(row.cost_input),
      output: Number(row.cost_output),
      cacheRead: Number(row.cost_cache_read),
      cacheWrite: Number(row.cost_cache_write),
      total: Number(row.cost_total),
    },
  };
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
