import type { UsageGroup, UsageReport } from "../postgres/usage-report.ts";
import { USAGE_TIME_UNITS, type UsageKey } from "../postgres/usage-report-options.ts";

/** What all groups are called that stand in no row or series of their own. */
export const OTHERS = "all others";

const TIME_UNITS: readonly string[] = USAGE_TIME_UNITS;

/** Keys of a report but time. */
export function groupKeys({ by }: UsageReport): UsageKey[] {
  return by.filter((key) => !TIME_UNITS.includes(key));
}

/** The values of a row's keys but time. */
export function groupName(report: UsageReport, row: UsageGroup): string {
  if (row.isRemainder) return OTHERS;
  return groupKeys(report)
    .map((key) => row.group[key] ?? "none")
    .join(", ");
}

/** A key as people read it: `entry type`. */
export function keyName(key: UsageKey): string {
  switch (key) {
    case "cwd":
      return "directory";
    case "root":
      return "root session";
    case "entryType":
      return "entry type";
    default:
      return key.replace(/^dimension:/, "");
  }
}
