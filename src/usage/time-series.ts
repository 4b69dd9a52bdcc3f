import { InvalidOptionError } from "../contract/errors.ts";
import type { UsageGroup, UsageReport, UsageSums } from "../postgres/usage-report.ts";
import { USAGE_TIME_UNITS, type UsageMeasure, type UsageTimeUnit } from "../postgres/usage-report-options.ts";
import { sumOf } from "./exact-decimal.ts";
import { groupName, OTHERS } from "./group-name.ts";
import { timeBuckets, timeUnitOf } from "./time-buckets.ts";

/** Values of several groups in the same units of time. */
export interface TimeSeries {
  readonly unit: UsageTimeUnit;
  /** As the report names them, those without usage too. */
  readonly buckets: readonly string[];
  /** The largest first, but all others last. One without name, if the report has no key but time. */
  readonly series: readonly Series[];
}

export interface Series {
  readonly name: string;
  /** Whether it is what all the others add up to. */
  readonly isOthers: boolean;
  /** By bucket, exact decimals; null where there is no such value. */
  readonly values: readonly (string | null)[];
  /** Of all buckets; null of what does not add up. */
  readonly total: string | null;
}

/** What does not add up, and is charted by time alone. */
export const RATIOS: readonly UsageMeasure[] = ["cacheHitRatio", "costPerCall"];

export function measured(sums: UsageSums, measure: UsageMeasure): string | null {
  const value = measure === "cost" ? sums.cost.total : sums[measure];
  return value === null ? null : String(value);
}

/**
 * What a report says about one measure along time.
 *
 * @param most how many series; what is beyond them is added up
 * @throws InvalidOptionError of `by` or `column`
 */
export function timeSeries(report: UsageReport, measure: UsageMeasure, most: number): TimeSeries {
  const unit = timeUnitOf(report.by);
  if (unit === undefined) {
    const units = USAGE_TIME_UNITS.join(", ");
    throw new InvalidOptionError("by", report.by.join(",") || "empty", `a chart takes one of ${units}`);
  }
  const isRatio = RATIOS.includes(measure);
  if (isRatio && report.by.length > 1) {
    throw new InvalidOptionError(
      "column",
      measure,
      `it does not add up: group by ${unit} alone, or chart another`,
    );
  }
  const buckets = timeBuckets(report, unit);
  const groups = Map.groupBy(report.rows, (row) => groupName(report, row));
  const all = [...groups].map(([name, rows]): Series => {
    const values = valuesByBucket(report, rows, buckets, unit, measure);
    const isOthers = rows.every(({ isRemainder }) => isRemainder);
    return { name, isOthers, values, total: isRatio ? null : totalOf(report, values) };
  });
  return { unit, buckets, series: isRatio ? all : largest(all, most, report) };
}

function valuesByBucket(
  report: UsageReport,
  rows: readonly UsageGroup[],
  buckets: readonly string[],
  unit: UsageTimeUnit,
  measure: UsageMeasure,
): (string | null)[] {
  const found = new Map(rows.map((row) => [row.group[unit], measured(row, measure)]));
  let before: string | null = RATIOS.includes(measure) ? null : "0";
  return buckets.map((bucket) => {
    const value = found.get(bucket) ?? before;
    // Running sums stay where nothing is added.
    if (report.isCumulative) before = value;
    return value;
  });
}

function totalOf({ isCumulative }: UsageReport, values: readonly (string | null)[]): string {
  return isCumulative ? (values.at(-1) ?? "0") : sumOf(values.map((value) => value ?? "0"));
}

function largest(all: readonly Series[], most: number, report: UsageReport): Series[] {
  const named = all
    .filter(({ isOthers }) => !isOthers)
    .sort((left, right) => Number(right.total) - Number(left.total));
  const rest = all.filter(({ isOthers }) => isOthers);
  const kept = named.length + rest.length > most ? named.splice(0, most - 1) : named.splice(0);
  const others = [...named, ...rest];
  if (others.length === 0) return kept;
  const values = (others[0]?.values ?? []).map((_, bucket) =>
    sumOf(others.map(({ values }) => values[bucket] ?? "0")),
  );
  return [...kept, { name: OTHERS, isOthers: true, values, total: totalOf(report, values) }];
}
