/** What the sums of the ledger add up: the columns of `usage_sums` behind its key. */
export const SUM_COLUMNS = [
  "rows",
  "zero_cost_rows",
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
