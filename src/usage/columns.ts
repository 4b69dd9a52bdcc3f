import type { UsageSums } from "../postgres/usage-report.ts";

/** What a column of sums holds: a number of something, US dollars as a decimal text, or a share from 0 to 1. */
export type SumColumn = { readonly name: string } & (
  | { readonly kind: "count"; readonly of: (sums: UsageSums) => number }
  | { readonly kind: "money"; readonly of: (sums: UsageSums) => string | null }
  | { readonly kind: "share"; readonly of: (sums: UsageSums) => number | null }
);

/** The sums of a report as columns of a file, named as in the ledger. */
export const SUM_COLUMNS: readonly SumColumn[] = [
  { name: "calls", kind: "count", of: ({ calls }) => calls },
  { name: "input", kind: "count", of: ({ input }) => input },
  { name: "output", kind: "count", of: ({ output }) => output },
  { name: "cache_read", kind: "count", of: ({ cacheRead }) => cacheRead },
  { name: "cache_write", kind: "count", of: ({ cacheWrite }) => cacheWrite },
  { name: "cache_write_1h", kind: "count", of: ({ cacheWrite1h }) => cacheWrite1h },
  { name: "reasoning", kind: "count", of: ({ reasoning }) => reasoning },
  { name: "total_tokens", kind: "count", of: ({ totalTokens }) => totalTokens },
  { name: "cost_input", kind: "money", of: ({ cost }) => cost.input },
  { name: "cost_output", kind: "money", of: ({ cost }) => cost.output },
  { name: "cost_cache_read", kind: "money", of: ({ cost }) => cost.cacheRead },
  { name: "cost_cache_write", kind: "money", of: ({ cost }) => cost.cacheWrite },
  { name: "cost_total", kind: "money", of: ({ cost }) => cost.total },
  { name: "adjustment_rows", kind: "count", of: ({ adjustments }) => adjustments.rows },
  { name: "adjustment_cost", kind: "money", of: ({ adjustments }) => adjustments.cost },
  { name: "cache_hit_ratio", kind: "share", of: ({ cacheHitRatio }) => cacheHitRatio },
  { name: "cost_per_call", kind: "money", of: ({ costPerCall }) => costPerCall },
  { name: "unpriced_calls", kind: "count", of: ({ unpricedCalls }) => unpricedCalls },
];
