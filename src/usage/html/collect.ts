import type { Context } from "../../contract/context.ts";
import type { Usage } from "../../postgres/usage.ts";
import type { UsageReport } from "../../postgres/usage-report.ts";
import type { UsageKey, UsageReportOptions, UsageTimeUnit } from "../../postgres/usage-report-options.ts";
import { timeUnitOf } from "../time-buckets.ts";

/** The reports that a page shows. */
export interface PageReports {
  /** By unit of time and model. With both ends of the time known, its total compares with the period before. */
  readonly overTime: UsageReport;
  readonly sessions: UsageReport;
  /** By tenant, or of one tenant by directory. */
  readonly spenders: UsageReport;
  /** What was asked for. */
  readonly table: UsageReport;
}

/** How many models a chart tells apart: as many as there are colors. */
export const MODELS = 7;
const TOP = 10;
const DAY_MS = 86_400_000;
const DEFAULT_KEYS: readonly UsageKey[] = ["provider", "model"];

export async function collectReports(
  usage: Pick<Usage, "report">,
  options: UsageReportOptions,
  context: Context,
): Promise<PageReports> {
  const { cumulative, compare, orderBy, top, by, ...what } = options;
  const hasEnds = what.from !== undefined && what.to !== undefined;
  const unit = timeUnitOf(by ?? []) ?? (await fittingUnit(usage, what, context));
  const ofTenant = what.tenant !== undefined;
  const report = (more: UsageReportOptions) => usage.report({ ...what, ...more }, context);
  return {
    overTime: await report({ by: [unit, "model"], top: MODELS, ...(hasEnds && { compare: true }) }),
    sessions: await report({ by: [...(ofTenant ? [] : (["tenant"] as const)), "session", "cwd"], top: TOP }),
    spenders: await report({ by: [ofTenant ? "cwd" : "tenant"], top: TOP }),
    table: await usage.report(
      { ...options, by: by === undefined || by.length === 0 ? DEFAULT_KEYS : by },
      context,
    ),
  };
}

/** The unit of time that draws not too few and not too many columns. */
async function fittingUnit(
  usage: Pick<Usage, "report">,
  what: UsageReportOptions,
  context: Context,
): Promise<UsageTimeUnit> {
  const { from, to, rows } = await usage.report({ ...what, by: ["day"] }, context);
  const days = rows.map(({ group }) => Date.parse(group.day ?? ""));
  const start = from ?? days.reduce((least, day) => Math.min(least, day), Infinity);
  const end = to ?? days.reduce((most, day) => Math.max(most, day), -Infinity) + DAY_MS;
  const length = (end - start) / DAY_MS;
  if (length <= 2) return "hour";
  if (length <= 92) return "day";
  return length <= 731 ? "week" : "month";
}
