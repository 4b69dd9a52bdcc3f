/** What a report groups by. `root` is the session that began the family of forks. At most one is a unit of time. */
export type UsageKey = "tenant" | UsageTimeUnit | UsageColumnKey | UsageDimensionKey;

export type UsageTimeUnit = (typeof USAGE_TIME_UNITS)[number];

/** A column of the ledger. */
export type UsageColumnKey = (typeof USAGE_COLUMN_KEYS)[number];

/** A billing dimension of the tenant, by its key in the sessions' metadata. */
export type UsageDimensionKey = `dimension:${string}`;

/**
 * A point in time: milliseconds since the epoch, a `Date`, or text in ISO 8601: `2026-11`, `2026-11-01`,
 * `2026-11-01T09:30`, `2026-11-01T09:30:00+01:00`. Text without an offset is read in the time zone of the report.
 */
export type UsageTime = number | Date | string;

/** What a report shows beside the keys, by the name that an order has for it. */
export type UsageMeasure = (typeof USAGE_MEASURES)[number];

/** Which usage a report sums, and how. */
export interface UsageReportOptions {
  /** Slug of the tenant. Left out: all tenants, which the owner of the tables and analysts see. */
  tenant?: string;
  /** Only what was spent at this time or later. Default: from the beginning. */
  from?: UsageTime;
  /** Only what was spent before this time. Default: to the end. */
  to?: UsageTime;
  /** Name in the IANA time zone database, in which days begin. Default `UTC`. */
  timeZone?: string;
  /** Default: nothing, which makes a report of the total alone. */
  by?: readonly UsageKey[];
  /** Only usage that has one of the values of each of these. */
  where?: UsageFilter;
  /** Default: by time, and what is equal by cost, the most expensive first. */
  orderBy?: UsageOrder;
  /**
   * Only so many groups, from 1 to 10,000: the most expensive over all the time of the report. All others are summed in
   * one more row, one for each unit of time.
   */
  top?: number;
  /** Sums from the beginning of the report to the end of each unit of time, for each group. Takes a unit in `by`. */
  cumulative?: boolean;
  /** Sums of the period of the same length just before too. Takes `from` and `to`. */
  compare?: boolean;
}

/** One value or several of a key. */
export type UsageFilter = { readonly [key in UsageColumnKey]?: string | readonly string[] } & {
  /** By the key of a billing dimension. */
  readonly dimensions?: Readonly<Record<string, string | readonly string[]>>;
};

/** The order of a report's rows; the rows of what `top` leaves over stand last. */
export interface UsageOrder {
  /** One of the report's keys, or what is summed. */
  column: UsageKey | UsageMeasure;
  /** Default: `asc` for keys, `desc` for sums. */
  direction?: "asc" | "desc";
}

export const USAGE_TIME_UNITS = ["hour", "day", "week", "month"] as const;

export const USAGE_COLUMN_KEYS = [
  "provider",
  "model",
  "session",
  "root",
  "cwd",
  "entryType",
  "role",
] as const;

export const USAGE_MEASURES = [
  "calls",
  "input",
  "output",
  "cacheRead",
  "cacheWrite",
  "cacheWrite1h",
  "reasoning",
  "totalTokens",
  "cost",
  "cacheHitRatio",
  "costPerCall",
  "unpricedCalls",
] as const;
