import { type Expression, type RawBuilder, sql } from "kysely";
import { UsageOverflowError } from "./errors.ts";
import { SPENT_COLUMNS } from "./usage-columns.ts";
import type { UsageSums } from "./usage-report.ts";
import type { UsageMeasure } from "./usage-report-options.ts";

/** What a report adds up, by the columns that its statement has for it. */
export const SUMS = [
  "calls",
  "adjustment_rows",
  "adjustment_cost",
  "unpriced_calls",
  ...SPENT_COLUMNS,
] as const;

export type Sum = (typeof SUMS)[number];

/**
 * The sum over facts with the alias `f`.
 *
 * @param priced a list of (tenant, provider, model); it is looked at only if there are facts that cost nothing
 */
export function sumOfFacts(sum: Sum, priced: Expression<unknown>): RawBuilder<unknown> {
  return sql`coalesce(${sumOf(sum, priced)}, 0) as ${sql.id(sum)}`;
}

function sumOf(sum: Sum, priced: Expression<unknown>): RawBuilder<unknown> {
  switch (sum) {
    case "calls":
      return sql`sum(f.rows) filter (where not f.adjustment)`;
    case "adjustment_rows":
      return sql`sum(f.rows) filter (where f.adjustment)`;
    case "adjustment_cost":
      return sql`sum(f.cost_total) filter (where f.adjustment)`;
    case "unpriced_calls":
      return sql`sum(f.zero_cost_rows) filter (
        where f.zero_cost_rows <> 0 and (f.tenant_id, f.provider, f.model) in (${priced}))`;
    default:
      return sql`sum(${sql.ref(`f.${sum}`)})`;
  }
}

/** What rows can be sorted by, of a row that has {@link SUMS}. */
export function measureOf(measure: UsageMeasure, alias: string): RawBuilder<unknown> {
  const column = (name: Sum) => sql.ref(`${alias}.${name}`);
  switch (measure) {
    case "cacheHitRatio":
      return sql`${column("cache_read")} / nullif(${column("input")} + ${column("cache_read")} + ${column("cache_write")}, 0)`;
    case "costPerCall":
      return costPerCall(alias);
    case "cost":
      return column("cost_total");
    case "unpricedCalls":
      return column("unpriced_calls");
    default:
      return column(TOKEN_COLUMNS[measure]);
  }
}

const TOKEN_COLUMNS = {
  calls: "calls",
  input: "input",
  output: "output",
  cacheRead: "cache_read",
  cacheWrite: "cache_write",
  cacheWrite1h: "cache_write_1h",
  reasoning: "reasoning",
  totalTokens: "total_tokens",
} as const satisfies { [measure in UsageMeasure]?: Sum };

type Prefix = "" | "previous_";

function costPerCall(alias: string, prefix: Prefix = ""): RawBuilder<unknown> {
  const [cost, calls] = ["cost_total", "calls"].map((name) => sql.ref(`${alias}.${prefix}${name}`));
  // Of a large amount, a quotient has as many places as the amount is written with, and no more.
  return sql`round((${cost} + 0e-24) / nullif(${calls}, 0), 12)`;
}

/** What {@link sumsOf} reads, of a row that has {@link SUMS}, for both periods or one. */
export function sumColumns(alias: string, compare: boolean): RawBuilder<unknown>[] {
  const prefixes: Prefix[] = compare ? ["", "previous_"] : [""];
  return prefixes.flatMap((prefix) => [
    ...SUMS.map(
      (sum) => sql`trim_scale(${sql.ref(`${alias}.${prefix}${sum}`)})::text as ${sql.id(`${prefix}${sum}`)}`,
    ),
    sql`trim_scale(${costPerCall(alias, prefix)})::text as ${sql.id(`${prefix}cost_per_call`)}`,
  ]);
}

/** Decimals as texts. */
export type SumRow = { readonly [column in `${Prefix}${Sum}`]: string } & {
  readonly [column in `${Prefix}cost_per_call`]: string | null;
};

/** @throws UsageOverflowError */
export function sumsOf(row: SumRow, prefix: Prefix = ""): UsageSums {
  const token = (field: keyof typeof TOKEN_COLUMNS) =>
    safeInteger(field, row[`${prefix}${TOKEN_COLUMNS[field]}`]);
  const [input, cacheRead, cacheWrite] = [token("input"), token("cacheRead"), token("cacheWrite")];
  const inputs = input + cacheRead + cacheWrite;
  return {
    calls: token("calls"),
    input,
    output: token("output"),
    cacheRead,
    cacheWrite,
    cacheWrite1h: token("cacheWrite1h"),
    reasoning: token("reasoning"),
    totalTokens: token("totalTokens"),
    cost: {
      input: row[`${prefix}cost_input`],
      output: row[`${prefix}cost_output`],
      cacheRead: row[`${prefix}cost_cache_read`],
      cacheWrite: row[`${prefix}cost_cache_write`],
      total: row[`${prefix}cost_total`],
    },
    adjustments: {
      rows: safeInteger("adjustments.rows", row[`${prefix}adjustment_rows`]),
      cost: row[`${prefix}adjustment_cost`],
    },
    cacheHitRatio: inputs === 0 ? null : cacheRead / inputs,
    costPerCall: row[`${prefix}cost_per_call`],
    unpricedCalls: safeInteger("unpricedCalls", row[`${prefix}unpriced_calls`]),
  };
}

function safeInteger(field: string, text: string): number {
  const integer = Number(text);
  if (!Number.isSafeInteger(integer)) throw new UsageOverflowError(field, text);
  return integer;
}
