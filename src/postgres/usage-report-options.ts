import { InvalidOptionError } from "../contract/errors.ts";
import { isStorable } from "../contract/text.ts";

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
  /** Sums from the beginning of the report to the end of each unit of time, for each group. Needs a unit in `by`. */
  cumulative?: boolean;
  /** Sums of the period of the same length just before too. Needs `from` and `to`. */
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

const OPTIONS: ReadonlySet<string> = new Set([
  "tenant",
  "from",
  "to",
  "timeZone",
  "by",
  "where",
  "orderBy",
  "top",
  "cumulative",
  "compare",
] satisfies (keyof UsageReportOptions)[]);

const DIMENSION = "dimension:";
const MAX_KEYS = 16;
const MAX_TOP = 10_000;

/** The key of the dimension that a key of a report names. */
export function dimensionOf(key: string): string | undefined {
  return key.startsWith(DIMENSION) ? key.slice(DIMENSION.length) : undefined;
}

/** The unit of time among the keys. */
export function unitOf(by: readonly UsageKey[]): UsageTimeUnit | undefined {
  return USAGE_TIME_UNITS.find((unit) => by.includes(unit));
}

/** All but tenant, times and time zone. @throws InvalidOptionError */
export function assertReportOptions(options: UsageReportOptions): void {
  for (const [option, value] of Object.entries(options)) {
    if (!OPTIONS.has(option)) {
      throw new InvalidOptionError(
        option,
        JSON.stringify(value),
        "leave it out; a report has no such option",
      );
    }
  }
  const { by = [], where = {}, orderBy, top } = options;
  assertKeys(by);
  assertFilter(where);
  if (orderBy !== undefined) assertOrder(orderBy, by);
  if (top !== undefined) assertTop(top, by);
  assertFlags(options);
}

function assertKeys(by: readonly UsageKey[]): void {
  if (!Array.isArray(by) || by.length > MAX_KEYS) {
    throw new InvalidOptionError("by", JSON.stringify(by), `pass an array of up to ${MAX_KEYS} keys`);
  }
  for (const key of by) {
    if (isKey(key)) continue;
    throw new InvalidOptionError(
      "by",
      JSON.stringify(key),
      `pass some of ${KEYS.join(", ")} and dimension:…`,
    );
  }
  if (new Set(by).size < by.length) {
    throw new InvalidOptionError("by", JSON.stringify(by), "name each key once");
  }
  if (by.filter((key) => (USAGE_TIME_UNITS as readonly string[]).includes(key)).length > 1) {
    throw new InvalidOptionError("by", JSON.stringify(by), `take one of ${USAGE_TIME_UNITS.join(", ")}`);
  }
}

const KEYS: readonly string[] = ["tenant", ...USAGE_TIME_UNITS, ...USAGE_COLUMN_KEYS];

function isKey(key: unknown): boolean {
  if (typeof key !== "string") return false;
  const dimension = dimensionOf(key);
  return dimension === undefined ? KEYS.includes(key) : isStorable(dimension) && dimension !== "";
}

function assertFilter({ dimensions = {}, ...columns }: UsageFilter): void {
  for (const [key, values] of Object.entries(columns)) {
    if (!(USAGE_COLUMN_KEYS as readonly string[]).includes(key)) {
      throw new InvalidOptionError(
        `where.${key}`,
        JSON.stringify(values),
        `filter by some of ${USAGE_COLUMN_KEYS.join(", ")} and dimensions`,
      );
    }
    assertValues(`where.${key}`, values);
  }
  if (typeof dimensions !== "object" || dimensions === null || Array.isArray(dimensions)) {
    throw new InvalidOptionError(
      "where.dimensions",
      JSON.stringify(dimensions),
      'name the dimensions that have to have a value, such as `dimension:team=red` in a command or { team: "red" }',
    );
  }
  for (const [key, values] of Object.entries(dimensions)) {
    if (!isStorable(key) || key === "") {
      throw new InvalidOptionError(
        "where.dimensions",
        JSON.stringify(key),
        "name a dimension, without NUL or lone surrogates",
      );
    }
    assertValues(`where.dimensions.${key}`, values);
  }
}

function assertValues(option: string, values: unknown): void {
  const all = Array.isArray(values) ? values : [values];
  if (all.length > 0 && all.every(isStorable)) return;
  throw new InvalidOptionError(
    option,
    JSON.stringify(values),
    "pass a text or several, without NUL or lone surrogates",
  );
}

function assertOrder({ column, direction }: UsageOrder, by: readonly UsageKey[]): void {
  const columns: readonly string[] = [...by, ...USAGE_MEASURES];
  if (!columns.includes(column)) {
    throw new InvalidOptionError(
      "orderBy.column",
      JSON.stringify(column),
      `pass one of ${columns.join(", ")}`,
    );
  }
  if (direction !== undefined && direction !== "asc" && direction !== "desc") {
    throw new InvalidOptionError("orderBy.direction", JSON.stringify(direction), "pass asc or desc");
  }
}

function assertTop(top: number, by: readonly UsageKey[]): void {
  if (!(Number.isSafeInteger(top) && top >= 1 && top <= MAX_TOP)) {
    throw new InvalidOptionError("top", top, `pass a whole number from 1 to ${MAX_TOP}`);
  }
  if (by.every((key) => key === unitOf(by))) {
    throw new InvalidOptionError("top", top, "group by something beside time, or leave it out");
  }
}

function assertFlags({ by = [], from, to, ...options }: UsageReportOptions): void {
  for (const flag of ["cumulative", "compare"] as const) {
    if (options[flag] !== undefined && typeof options[flag] !== "boolean") {
      throw new InvalidOptionError(flag, JSON.stringify(options[flag]), "pass true or false");
    }
  }
  if (options.cumulative === true && unitOf(by) === undefined) {
    throw new InvalidOptionError("cumulative", true, "group by a unit of time too, or leave it out");
  }
  if (options.compare === true && (from === undefined || to === undefined)) {
    throw new InvalidOptionError("compare", true, "pass `from` and `to` too, or leave it out");
  }
}
