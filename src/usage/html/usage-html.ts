import type { Context } from "../../contract/context.ts";
import type { Usage } from "../../postgres/usage.ts";
import type { UsageFilter, UsageReportOptions } from "../../postgres/usage-report-options.ts";
import { keyName } from "../group-name.ts";
import { collectReports } from "./collect.ts";
import { page } from "./page.ts";

/**
 * Usage as a page in a single file, which loads nothing and runs nothing: sums beside those of the period before, cost
 * along time by model, cache-hit ratio, the most expensive sessions and tenants (of one tenant: directories), and the
 * report that the options describe as a table.
 *
 * @param options as of `db.usage.report`. A unit of time in `by` is that of the charts; default: one that fits. Keys
 *   default to provider and model. With `from` and `to`, sums are compared with the period before.
 * @throws what `db.usage.report` throws, and InvalidOptionError of `by`: charts of more than 10,000 units of time
 * @example
 * await writeFile("usage.html", await usageHtml(db.usage, { tenant: "acme", from: "2026-11", to: "2026-12" }, context));
 */
export async function usageHtml(
  usage: Pick<Usage, "report">,
  options: UsageReportOptions,
  context: Context,
): Promise<string> {
  const reports = await collectReports(usage, options, context);
  const { tenant, where = {} } = options;
  return page(reports, { tenant, filters: filterTexts(where), madeAt: Date.now() });
}

function filterTexts({ dimensions = {}, ...columns }: UsageFilter): string[] {
  const named = Object.entries(columns).map(
    ([key, values]) => [keyName(key as keyof typeof columns), values] as const,
  );
  return [...named, ...Object.entries(dimensions)].map(
    ([name, values]) => `${name}: ${typeof values === "string" ? values : values.join(" or ")}`,
  );
}
