import type { UsageGroup, UsageReport, UsageSums } from "../../src/postgres/usage-report.ts";
import type { UsageKey } from "../../src/postgres/usage-report-options.ts";

/** Sums that are zero but for what is given. */
export function sums(given: Partial<Omit<UsageSums, "cost">> & { cost?: Partial<UsageSums["cost"]> } = {}) {
  const { cost, ...counts } = given;
  return {
    ...{ calls: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, reasoning: 0 },
    ...{ totalTokens: 0, adjustments: { rows: 0, cost: "0" }, unpricedCalls: 0 },
    ...{ cacheHitRatio: null, costPerCall: null },
    ...counts,
    cost: { input: "0", output: "0", cacheRead: "0", cacheWrite: "0", total: "0", ...cost },
  } satisfies UsageSums;
}

export function row(
  group: UsageGroup["group"],
  given: Parameters<typeof sums>[0] = {},
  more: Partial<Pick<UsageGroup, "isRemainder" | "previous">> = {},
): UsageGroup {
  return { group, isRemainder: false, ...sums(given), ...more };
}

/** A report as `db.usage.report` returns it, for what takes one. */
export function madeReport(
  by: UsageKey[],
  rows: UsageGroup[] = [],
  more: Partial<UsageReport> = {},
): UsageReport {
  return { from: null, to: null, timeZone: "UTC", by, isCumulative: false, rows, total: sums(), ...more };
}
