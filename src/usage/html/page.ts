import type { UsageReport } from "../../postgres/usage-report.ts";
import { timeBuckets, timeUnitOf } from "../time-buckets.ts";
import { timeSeries } from "../time-series.ts";
import { MODELS, type PageReports } from "./collect.ts";
import { costChart } from "./cost-chart.ts";
import { bucketLabel, periodText } from "./format.ts";
import { html, type Markup, stored } from "./markup.ts";
import { type RatioSeries, ratioChart } from "./ratio-chart.ts";
import { reportTable, topTable } from "./report-table.ts";
import { STYLE } from "./style.ts";
import { costParts, totals } from "./totals.ts";

/** What is said about the reports. */
export interface PageFacts {
  /** Slug of the tenant; undefined: of all tenants. */
  readonly tenant: string | undefined;
  /** What was filtered by, as `model = gpt-5`. */
  readonly filters: readonly string[];
  /** Milliseconds since the epoch. */
  readonly madeAt: number;
}

/** A page in one file: no script, nothing loaded, and a policy that keeps it so. */
export function page(reports: PageReports, facts: PageFacts): string {
  const { overTime } = reports;
  const whose = facts.tenant === undefined ? "all tenants" : facts.tenant;
  const period = periodOf(overTime);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Usage of ${whose}: ${period}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>Usage of ${facts.tenant === undefined ? html`all tenants` : stored(facts.tenant)}</h1>
<p>${period} <span class="zone">${overTime.timeZone}</span></p>
${facts.filters.length === 0 ? undefined : html`<p class="filters">Only ${facts.filters.map((filter) => html`<code>${stored(filter)}</code> `)}</p>`}
</header>
<main>
${totals(overTime)}
${overTime.rows.length === 0 ? nothing() : charts(reports, facts)}
</main>
<footer>
<p>Costs are US dollars, net of adjustments. The cache-hit ratio is the share of input tokens that were read from a cache. Calls are rows of the ledger that are no adjustments.</p>
<p>Made by pi-sessions on ${new Date(facts.madeAt).toISOString().slice(0, 16).replace("T", " ")} UTC.</p>
</footer>
</body>
</html>
`.text;
}

/** A report from the beginning says when that was. */
function periodOf(report: UsageReport): string {
  const { from, to, timeZone } = report;
  const unit = timeUnitOf(report.by) ?? "day";
  const [first] = from === null && to === null ? timeBuckets(report, unit) : [];
  const text = periodText(from, to, timeZone);
  return first === undefined ? text : `${text}, since ${bucketLabel(first, unit)}`;
}

function nothing(): Markup {
  return html`<section class="card empty"><h2>No usage</h2><p>Nothing was spent in this time.</p></section>`;
}

function charts({ overTime, sessions, spenders, table }: PageReports, { tenant }: PageFacts): Markup {
  const unit = timeUnitOf(overTime.by) ?? "day";
  const spender = tenant === undefined ? "tenants" : "directories";
  return html`<section class="card"><h2>Cost by ${unit} and model</h2>${costChart(timeSeries(overTime, "cost", MODELS + 1))}</section>
<div class="pair">
<section class="card"><h2>Cache-hit ratio</h2>${ratioChart(ratiosOf(overTime))}</section>
<section class="card"><h2>Top ${spender}</h2>${topTable(`Cost by ${tenant === undefined ? "tenant" : "directory"}`, spenders)}</section>
</div>
<section class="card"><h2>Cost by kind of token</h2>${costParts(overTime.total)}</section>
<section class="card"><h2>Top sessions</h2>${topTable("Sessions by cost", sessions)}</section>
<section class="card"><h2>All numbers</h2>${reportTable("The report as a table", table)}</section>`;
}

/** Of all models together. Tokens are whole numbers, so they may be added as such. */
function ratiosOf(report: UsageReport): RatioSeries {
  const unit = timeUnitOf(report.by) ?? "day";
  const buckets = timeBuckets(report, unit);
  const rows = Map.groupBy(report.rows, ({ group }) => group[unit]);
  const shares = buckets.map((bucket) => {
    const found = rows.get(bucket) ?? [];
    const read = found.reduce((sum, { cacheRead }) => sum + cacheRead, 0);
    const all = found.reduce(
      (sum, { input, cacheRead, cacheWrite }) => sum + input + cacheRead + cacheWrite,
      0,
    );
    return all === 0 ? null : read / all;
  });
  return { unit, buckets, shares };
}
