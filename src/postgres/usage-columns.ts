import type { Usage } from "../contract/usage.ts";

const TOKEN_COLUMNS = [
  "input",
  "output",
  "cache_read",
  "cache_write",
  "cache_write_1h",
  "reasoning",
  "total_tokens",
] as const;

const COST_COLUMNS = [
  "cost_input",
  "cost_output",
  "cost_cache_read",
  "cost_cache_write",
  "cost_total",
] as const;

/** What a row of the ledger spent: tokens, then money. */
export const SPENT_COLUMNS = [...TOKEN_COLUMNS, ...COST_COLUMNS] as const;

export type SpentColumn = (typeof SPENT_COLUMNS)[number];

/** What the sums of the ledger add up: the columns of `usage_sums` behind its key. */
export const SUM_COLUMNS = ["rows", "zero_cost_rows", ...SPENT_COLUMNS] as const;

interface SpentRow {
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number | null;
  reasoning: number | null;
  total_tokens: number;
}

type CostRow = { readonly [column in (typeof COST_COLUMNS)[number]]: string };

/** The tokens of a row, by the names that programs know them by. */
export function tokensOf(row: SpentRow): Omit<Usage, "cost"> {
  return {
    input: row.input,
    output: row.output,
    cacheRead: row.cache_read,
    cacheWrite: row.cache_write,
    ...(row.cache_write_1h === null ? {} : { cacheWrite1h: row.cache_write_1h }),
    ...(row.reasoning === null ? {} : { reasoning: row.reasoning }),
    totalTokens: row.total_tokens,
  };
}

/** The same of the money, as decimals or as what is made of them. */
export function costOf<T>(row: CostRow, make: (decimal: string) => T): { [part in keyof Usage["cost"]]: T } {
  return {
    input: make(row.cost_input),
    output: make(row.cost_output),
    cacheRead: make(row.cost_cache_read),
    cacheWrite: make(row.cost_cache_write),
    total: make(row.cost_total),
  };
}
