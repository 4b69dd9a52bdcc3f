import type { Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { DatabasePermissionError, TenantNotFoundError } from "./errors.ts";
import { isTimeOutOfRange, isUnknownTimeZone } from "./failure.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import { read, type Tables } from "./transaction.ts";
import { type SumRow, sumsOf } from "./usage-measures.ts";
import { instantOf, serverTimeZone, unknownTimeZone } from "./usage-period.ts";
import {
  assertReportOptions,
  type UsageKey,
  type UsageReportOptions,
  unitOf,
} from "./usage-report-options.ts";
import type { Question, ReportRow } from "./usage-statement.ts";
import { reportQuery } from "./usage-template.ts";

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
   * (among all tenants, one that was inserted by hand by its id, until its first roll-up). Null: a session without
   * working directory, or without the dimension; in the remainder, every key but the unit of time.
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

/**
 * @throws InvalidOptionError, InvalidTextError, TenantNotFoundError, UsageOverflowError, DatabasePermissionError when
 *   the role sees one tenant at a time and none was named
 */
export async function reportUsage(
  tables: Tables,
  options: UsageReportOptions,
  context: Context,
): Promise<UsageReport> {
  const question = questionOf(options);
  const { tenant, period } = question;
  const rows = await readReport(tables, question, context).catch((error: unknown) => {
    if (isTimeOutOfRange(error) && period.compare) throw noPeriodBefore();
    throw isUnknownTimeZone(error) ? unknownTimeZone(options.timeZone) : error;
  });
  const [total, ...groups] = rows as [ReportRow, ...ReportRow[]];
  const { from_at, to_at, previous_at, sees_all } = total;
  // Row-level security would show such a role nothing, without a word.
  if (sees_all !== true)
    throw new DatabasePermissionError("report all tenants, of which it sees one at a time");
  if (from_at !== null && to_at !== null && from_at >= to_at) {
    throw new InvalidOptionError("to", JSON.stringify(options.to), "pass a time after `from`");
  }
  const { by = [], timeZone = "UTC", cumulative = false } = options;
  const sums = bothSumsOf(total, period.compare);
  if (tenant !== undefined && groups.length === 0 && isNothing(sums))
    await assertTenant(tables, tenant, context);
  return {
    from: from_at,
    to: to_at,
    ...(previous_at === null || from_at === null ? {} : { previous: { from: previous_at, to: from_at } }),
    timeZone,
    by: [...by],
    isCumulative: cumulative,
    rows: groups.map((row) => ({
      group: groupOf(row, by, question),
      isRemainder: row.is_remainder,
      ...bothSumsOf(row, period.compare),
    })),
    total: sums,
  };
}

function noPeriodBefore(): InvalidOptionError {
  return new InvalidOptionError(
    "compare",
    true,
    "the period before would begin before the calendar of the server does: pass a later `from` or an earlier `to`",
  );
}

/** @throws InvalidOptionError, InvalidTextError */
function questionOf(options: UsageReportOptions): Question {
  assertReportOptions(options);
  const { tenant, from, to, timeZone = "UTC", by = [], where = {}, orderBy, top } = options;
  const { cumulative = false, compare = false } = options;
  const unit = unitOf(by);
  return {
    tenant: tenant === undefined ? undefined : tenantOf(tenant),
    period: {
      from: from === undefined ? undefined : instantOf("from", from),
      to: to === undefined ? undefined : instantOf("to", to),
      timeZone: serverTimeZone(timeZone),
      unit,
      compare,
    },
    keys: by.filter((key) => key !== unit),
    where,
    orderBy,
    top,
    cumulative,
  };
}

function readReport(tables: Tables, question: Question, context: Context): Promise<ReportRow[]> {
  const { tenant } = question;
  return read(
    tenant === undefined ? tables : { ...tables, tenant },
    context,
    () => reportQuery(tables, question),
    { plans: "sorted" },
  );
}

function groupOf(row: ReportRow, by: readonly UsageKey[], { keys }: Question): UsageGroup["group"] {
  return Object.fromEntries(
    by.map((key) => {
      const index = keys.indexOf(key);
      return [key, index === -1 ? row.label : (row[`key_${index}`] ?? null)];
    }),
  );
}

function bothSumsOf(row: SumRow, compare: boolean): UsageSums & { previous?: UsageSums } {
  return compare ? { ...sumsOf(row), previous: sumsOf(row, "previous_") } : sumsOf(row);
}

function isNothing({ calls, adjustments, previous }: UsageSums & { previous?: UsageSums }): boolean {
  return calls === 0 && adjustments.rows === 0 && (previous === undefined || isNothing(previous));
}

/** An analyst does not see which tenants there are. @throws TenantNotFoundError */
async function assertTenant(tables: Tables, tenant: Tenant, context: Context): Promise<void> {
  const found = await read({ ...tables, tenant }, context, (db) =>
    db.selectFrom("tenants").select("tenant_id").where("tenant_id", "=", tenant.tenantId),
  ).catch((error: unknown) => {
    if (error instanceof DatabasePermissionError) return undefined;
    throw error;
  });
  if (found?.length === 0) throw new TenantNotFoundError(tenant.slug);
}
