import type { UsageKey } from "./usage-report-options.ts";

/** Sums of the ledger. Every row adds to them, adjustments too, which are told apart as well. */
export interface UsageSums {
  /** Number of rows that are no adjustments. */
  calls: number;
  /** Input tokens that were neither read from nor written to a cache. */
  input: number;
  /** Output tokens, those of `reasoning` included. */
  output: number;
  /** Input tokens that were read from a cache. */
  cacheRead: number;
  /** Input tokens that were written to a cache, those of `cacheWrite1h` included. */
  cacheWrite: number;
  /** The part of `cacheWrite` that is kept for an hour, where providers tell. */
  cacheWrite1h: number;
  /** The part of `output` that was spent on reasoning, where providers tell. */
  reasoning: number;
  /** As providers count them. */
  totalTokens: number;
  /** What that cost, net of adjustments. */
  cost: ExactCost;
  /** What adjustments have in it: their number, and their total cost in US dollars, an exact decimal. */
  adjustments: { rows: number; cost: string };
  /** Share of input tokens that were read from a cache, from 0 to 1; null without input tokens. */
  cacheHitRatio: number | null;
  /** `cost.total` by `calls`, in US dollars, a decimal rounded to 12 places; null without calls. */
  costPerCall: string | null;
  /** Calls that used tokens and cost nothing, on a model that costs the tenant something at other times. */
  unpricedCalls: number;
}

/** US dollars, as exact decimals. */
export interface ExactCost {
  /** Of the tokens in `input`. */
  input: string;
  /** Of the tokens in `output`. */
  output: string;
  /** Of the tokens in `cacheRead`. */
  cacheRead: string;
  /** Of the tokens in `cacheWrite`. */
  cacheWrite: string;
  /** As reported, not checked against the others. */
  total: string;
}

/** One row of a report: a group in a unit of time. */
export interface UsageGroup extends UsageSums {
  /**
   * The value of each key of the report. Units of time by their beginning in the report's time zone: hour
   * `2026-11-01T01:00+01:00`, day `2026-11-01`, week `2026-10-26` (its Monday), month `2026-11`. A tenant by its slug
   * in a report of one tenant, else by its id. Null: a session without working directory, or without the dimension; in
   * the remainder, every key but the unit of time.
   */
  group: { readonly [key in UsageKey]?: string | null };
  /** Whether this is the sum of all groups that `top` leaves over. */
  isRemainder: boolean;
  /** With `compare`: the same group in the period before. */
  previous?: UsageSums;
}

/** What was spent. */
export interface UsageReport {
  /** Beginning, in milliseconds since the epoch; null without one. */
  from: number | null;
  /** End, exclusive, in milliseconds since the epoch; null without one. */
  to: number | null;
  /** With `compare`: the period before. */
  previous?: { from: number; to: number };
  /** In which its units of time begin. */
  timeZone: string;
  /** Its keys, in the order that was asked for. */
  by: UsageKey[];
  /** Whether the sums of its rows run from the beginning. */
  isCumulative: boolean;
  /** Groups in which something was spent; none in a report without keys. */
  rows: UsageGroup[];
  /** The sum of everything that the report is about. With `compare`, the period before as well. */
  total: UsageSums & { previous?: UsageSums };
}
