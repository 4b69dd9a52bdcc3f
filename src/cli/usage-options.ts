import { type Command, InvalidArgumentError, Option } from "commander";
import type {
  UsageFilter,
  UsageKey,
  UsageOrder,
  UsageReportOptions,
} from "../postgres/usage-report-options.ts";
import { wholeNumber } from "./arguments.ts";

/** What is asked of a report at the command line; the database judges the values. */
export interface ReportOptions {
  allTenants?: true;
  by?: UsageKey[];
  from?: string;
  to?: string;
  tz?: string;
  where?: UsageFilter;
  session?: string;
  order?: UsageOrder;
  top?: number;
  cumulative?: true;
  compare?: true;
}

/** Without `--by`. */
const DEFAULT_KEYS: UsageKey[] = ["provider", "model"];

export function addReportOptions(command: Command): void {
  command
    .option("--by <keys>", "what to group by, separated by commas (default: provider,model)", keys)
    .option("--from <time>", "only what was spent at this time or later")
    .option("--to <time>", "only what was spent before this time")
    .option("--tz <zone>", "IANA time zone of times and days (default: UTC)")
    .option(
      "--where <key=value>",
      "only this; a key may be given several times, for any of its values",
      filter,
    )
    .addOption(
      new Option("--session <id>", "only this session; the start of its id is enough").conflicts(
        "allTenants",
      ),
    )
    .option("--top <count>", "only the most expensive groups, and all others as one", wholeNumber)
    .option("--order <column>", "what to sort by; with :asc or :desc the direction", order)
    .option("--cumulative", "sums from the beginning; needs a unit of time in --by")
    .option("--compare", "the period of the same length just before, too; needs --from and --to");
}

export const REPORT_HELP = `
Keys are tenant, hour, day, week, month, provider, model, session, root, cwd, entryType, role and dimension:<key>; at most
one unit of time. Besides by a key, a report can be sorted by calls, input, output, cacheRead, cacheWrite, cacheWrite1h,
reasoning, totalTokens, cost, cacheHitRatio, costPerCall and unpricedCalls.

Times are 2026-11, 2026-11-01, 2026-11-01T09:30, or with an offset, or milliseconds since the epoch.`;

export function reportOptions(options: ReportOptions & { tenant: string }): UsageReportOptions {
  const { allTenants, tenant, by = DEFAULT_KEYS, from, to, tz, where, order, top } = options;
  const { cumulative, compare } = options;
  const all = {
    ...{ tenant: allTenants ? undefined : tenant, by, from: moment(from), to: moment(to), timeZone: tz },
    ...{ where, orderBy: order, top, cumulative, compare },
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** More digits than a year has are milliseconds. */
function moment(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d{5,}$/.test(text) ? Number(text) : text;
}

function keys(text: string, before: UsageKey[] = []): UsageKey[] {
  return [...before, ...(text.split(",") as UsageKey[])];
}

/** @throws InvalidArgumentError */
function filter(text: string, before: UsageFilter = {}): UsageFilter {
  const [, key = "", value = ""] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (key === "") throw new InvalidArgumentError("Pass a key and a value, such as model=claude-sonnet-4-5.");
  const dimension = /^dimension:(.*)$/s.exec(key)?.[1];
  if (dimension === undefined) return withValue(before, key, value);
  return { ...before, dimensions: withValue(before.dimensions ?? {}, dimension, value) };
}

function withValue<T extends object>(values: T, key: string, value: string): T {
  // Not what every object has by nature, such as `constructor`.
  const known = Object.hasOwn(values, key) ? (values as Record<string, string[]>)[key] : [];
  return { ...values, [key]: [...(known ?? []), value] };
}

function order(text: string): UsageOrder {
  const [, column, direction] = /^(.*?)(?::(asc|desc))?$/s.exec(text) ?? [];
  const named = { column: column as UsageOrder["column"] };
  return direction === undefined ? named : { ...named, direction: direction as "asc" | "desc" };
}
