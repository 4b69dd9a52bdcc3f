import { type Expression, type Kysely, type RawBuilder, type SqlBool, sql } from "kysely";
import type { DB } from "./schema.generated.ts";
import type { Tables } from "./transaction.ts";
import { SPENT_COLUMNS } from "./usage-columns.ts";
import type { UsageColumnKey, UsageFilter, UsageTimeUnit } from "./usage-report-options.ts";
import { rolledFacts } from "./usage-rolled-facts.ts";

/** Usage that reports sum: a row of the ledger, or the sum of several that no report of this question tells apart. */
export interface Fact {
  tenant_id: string;
  /** Milliseconds since the epoch; of a sum, a time in the unit of time that all of it lies in. */
  at: number;
  provider: string;
  model: string;
  adjustment: boolean;
  session_id: string;
  root_session_id: string;
  cwd: string | null;
  entry_type: string;
  role: string;
  /** A `jsonb` object of texts. */
  dimensions: string;
  /** How many rows of the ledger it sums; negative, as all of its sums, where it is taken off another fact. */
  rows: number;
  /** How many of them are no adjustments, used tokens and cost nothing. */
  zero_cost_rows: number;
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number | null;
  reasoning: number | null;
  total_tokens: number;
  cost_input: string;
  cost_output: string;
  cost_cache_read: string;
  cost_cache_write: string;
  cost_total: string;
}

/**
 * What a report may group by or filter beside tenant, time, provider and model; `at` where the time of each fact has to
 * be that of one row.
 */
export type DetailColumn =
  | "session_id"
  | "root_session_id"
  | "cwd"
  | "entry_type"
  | "role"
  | "dimensions"
  | "at";

/** Which facts a report needs. */
export interface FactsQuery {
  /** Left out: all tenants. */
  readonly tenantId: string | undefined;
  /** Milliseconds since the epoch, from inclusive, to exclusive; constant in the statement. */
  readonly from: Expression<number> | undefined;
  readonly to: Expression<number> | undefined;
  /** Facts may be summed as long as each sum lies in one of these. Left out: whatever lies between `from` and `to`. */
  readonly bucket: { readonly unit: UsageTimeUnit; readonly timeZone: string } | undefined;
  /** Columns that have to be there beside those that all facts have. */
  readonly details: ReadonlySet<DetailColumn>;
  readonly where: UsageFilter;
}

/** Facts for a statement. */
export interface Facts {
  /** What stands before a `select` from {@link rows}, or in one around it: a `with` clause, or nothing. */
  readonly sources: RawBuilder<unknown>;
  /** A `select` of {@link Fact}s. It may stand in a statement more than once. */
  readonly rows: RawBuilder<Fact>;
}

/** Column of the ledger by the key that a report has for it. */
export const LEDGER_COLUMNS = {
  provider: "provider",
  model: "model",
  session: "session_id",
  root: "root_session_id",
  cwd: "cwd",
  entryType: "entry_type",
  role: "role",
} as const satisfies Record<UsageColumnKey, keyof Fact>;

/** Columns of {@link FactsQuery.details} that were not asked for may be missing: the sums of the ledger do not have them. */
export function usageFacts({ db, schema }: Pick<Tables, "db" | "schema">, query: FactsQuery): Facts {
  if (query.details.size > 0) return { sources: sql``, rows: sql`${ledgerFacts(db, query)}` };
  return rolledFacts(schema, query, (alias) => usageFilters(query.where, alias));
}

function ledgerFacts(db: Kysely<DB>, query: FactsQuery) {
  const { tenantId, from, to, where } = query;
  return db
    .selectFrom("usage_ledger as u")
    .select([
      "u.tenant_id",
      "u.spent_at as at",
      "u.provider",
      "u.model",
      "u.adjustment",
      "u.session_id",
      "u.root_session_id",
      "u.cwd",
      "u.entry_type",
      "u.role",
      "u.dimensions",
      sql<number>`1::bigint`.as("rows"),
      sql<number>`case when not u.adjustment and u.total_tokens > 0 and u.cost_total = 0 then 1 else 0 end`.as(
        "zero_cost_rows",
      ),
      ...SPENT_COLUMNS.map((column) => `u.${column}` as const),
    ])
    .$if(tenantId !== undefined, (rows) => rows.where("u.tenant_id", "=", tenantId as string))
    .$if(from !== undefined, (rows) => rows.where("u.spent_at", ">=", from as Expression<number>))
    .$if(to !== undefined, (rows) => rows.where("u.spent_at", "<", to as Expression<number>))
    .where((eb) => eb.and(usageFilters(where, "u")));
}

/** The filters as predicates on the columns of `alias`. */
export function usageFilters(
  { dimensions = {}, ...columns }: UsageFilter,
  alias: string,
): Expression<SqlBool>[] {
  return [
    ...Object.entries(columns).map(([key, values]) =>
      isOneOf(sql.ref(`${alias}.${LEDGER_COLUMNS[key as UsageColumnKey]}`), values),
    ),
    ...Object.entries(dimensions).map(([key, values]) =>
      isOneOf(sql`${sql.ref(`${alias}.dimensions`)} ->> ${key}::text`, values),
    ),
  ];
}

/** With one value an equality, which finds an index. */
function isOneOf(column: Expression<unknown>, values: string | readonly string[]): Expression<SqlBool> {
  const all = typeof values === "string" ? [values] : values;
  return all.length === 1 ? sql`${column} = ${all[0]}` : sql`${column} = any(${[...all]}::text[])`;
}
