import type { UsageGroup, UsageReport, UsageSums } from "../../postgres/usage-report.ts";
import type { UsageKey, UsageTimeUnit } from "../../postgres/usage-report-options.ts";
import { keyName, OTHERS } from "../group-name.ts";
import { digitsFor, dollars } from "../money.ts";
import { timeUnitOf } from "../time-buckets.ts";
import { bucketLabel, count, percent } from "./format.ts";
import { html, type Markup, stored } from "./markup.ts";
import { type TableColumn, table } from "./table.ts";

/** More make a page that browsers are slow to show. */
const MOST_ROWS = 2_000;

type Row = UsageSums & Partial<Pick<UsageGroup, "group" | "isRemainder">> & { previous?: UsageSums };

/** The most expensive groups, each with a bar of its cost. */
export function topTable(caption: string, report: UsageReport): Markup {
  const named = report.rows.filter(({ isRemainder }) => !isRemainder).map(({ cost }) => cost.total);
  const digits = digitsFor([...named, report.total.cost.total]);
  const most = named.reduce((largest, cost) => Math.max(largest, Number(cost)), 0);
  const columns: TableColumn<Row>[] = [
    ...report.by.map((key) => keyColumn(report, key)),
    {
      head: "cost",
      isNumber: true,
      cell: ({ cost, isRemainder }) => {
        const amount = html`<span title="$${cost.total}">${dollars(cost.total, digits)}</span>`;
        if (isRemainder !== false || most === 0) return amount;
        const share = (Math.max(Number(cost.total), 0) / most) * 100;
        return html`<span class="bar" style="--share:${share.toFixed(1)}%">${amount}</span>`;
      },
    },
    { head: "calls", isNumber: true, cell: ({ calls }) => html`${count(calls)}` },
    { head: "tokens", isNumber: true, cell: ({ totalTokens }) => html`${count(totalTokens)}` },
  ];
  return table(caption, columns, report.rows, report.total);
}

/** All columns of a report, its total below. */
export function reportTable(caption: string, report: UsageReport): Markup {
  const all: Row[] = [...report.rows, report.total];
  const digits = digitsFor(all.flatMap(({ cost, previous }) => [cost.total, previous?.cost.total ?? null]));
  const perCall = digitsFor(all.map(({ costPerCall }) => costPerCall));
  const number = (head: string, text: (row: Row) => string): TableColumn<Row> => ({
    ...{ head, isNumber: true },
    cell: (row) => html`${text(row)}`,
  });
  const columns = [
    ...report.by.map((key) => keyColumn(report, key)),
    {
      ...{ head: report.isCumulative ? "cost so far" : "cost", isNumber: true },
      cell: ({ cost }: Row) => html`<span title="$${cost.total}">${dollars(cost.total, digits)}</span>`,
    },
    ...(report.previous === undefined
      ? []
      : [
          number("cost before", ({ previous }) =>
            previous === undefined ? "–" : dollars(previous.cost.total, digits),
          ),
        ]),
    number("calls", ({ calls }) => count(calls)),
    number("input", ({ input }) => count(input)),
    number("output", ({ output }) => count(output)),
    number("cache read", ({ cacheRead }) => count(cacheRead)),
    number("cache write", ({ cacheWrite }) => count(cacheWrite)),
    number("tokens", ({ totalTokens }) => count(totalTokens)),
    number("cache hits", ({ cacheHitRatio }) => percent(cacheHitRatio)),
    number("unpriced", ({ unpricedCalls }) => count(unpricedCalls)),
    number("cost per call", ({ costPerCall }) =>
      costPerCall === null ? "–" : dollars(costPerCall, perCall),
    ),
  ];
  const more = report.rows.length - MOST_ROWS;
  const rest =
    more <= 0
      ? undefined
      : html`<p class="notice">${count(more)} more rows are left out here, but not in the total: CSV, JSON and Parquet have them all.</p>`;
  return html`${table(caption, columns, report.rows.slice(0, MOST_ROWS), report.total)}${rest}`;
}

function keyColumn(report: UsageReport, key: UsageKey): TableColumn<Row> {
  const unit = timeUnitOf([key]);
  const isFirst = report.by[0] === key;
  const isFirstGroup = report.by.find((one) => timeUnitOf([one]) === undefined) === key;
  return {
    head: keyName(key),
    cell: ({ group, isRemainder }) => {
      if (group === undefined) return html`${isFirst ? "total" : ""}`;
      if (isRemainder && unit === undefined) return html`${isFirstGroup ? OTHERS : ""}`;
      return valueCell(group[key], unit);
    },
  };
}

function valueCell(value: string | null | undefined, unit: UsageTimeUnit | undefined): Markup {
  if (value === null || value === undefined) return html`<span class="none">none</span>`;
  return unit === undefined ? stored(value) : html`${bucketLabel(value, unit)}`;
}
