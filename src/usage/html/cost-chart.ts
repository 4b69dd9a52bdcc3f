import { sumOf } from "../exact-decimal.ts";
import { digitsFor, dollars } from "../money.ts";
import type { TimeSeries } from "../time-series.ts";
import { type Axis, axisOf, heightOf, tickDigits } from "./axis.ts";
import { bucketLabel, percent } from "./format.ts";
import { html, type Markup, stored } from "./markup.ts";
import { plot, rounded, slotsOf } from "./plot.ts";
import { foldedTable, type TableColumn } from "./table.ts";

/** Part of a unit of time that a column fills. */
const COLUMN = 0.78;

/** Cost as stacked columns, with a legend that says what each part adds up to. */
export function costChart(all: TimeSeries): Markup {
  const chart = withoutFree(all);
  const { unit, buckets, series } = chart;
  const sums = buckets.map((_, bucket) => sumOf(series.map(({ values }) => values[bucket] ?? "0")));
  const stacks = buckets.map((_, bucket) => stackOf(series.map(({ values }) => Number(values[bucket] ?? 0))));
  const axis = axisOf(
    Math.min(0, ...stacks.map(({ bottom }) => bottom)),
    Math.max(0, ...stacks.map(({ top }) => top)),
  );
  const digits = digitsFor(sums);
  const { first } = slotsOf(buckets);
  const columns = buckets.map((bucket, index) => {
    const parts = series.flatMap(({ name, values }) => {
      const value = values[index] ?? "0";
      return Number(value) === 0 ? [] : [`${name}: ${dollars(value, digits)}`];
    });
    const title = [bucketLabel(bucket, unit), ...parts, `Total: ${dollars(sums[index] ?? "0", digits)}`].join(
      "\n",
    );
    return html`<g class="column"><title>${title}</title><rect class="hit" x="${rounded(first + index)}" y="0" width="1" height="100"/>${(
      stacks[index]?.parts ?? []
    ).map((part) =>
      columnPart(part, {
        x: first + index + (1 - COLUMN) / 2,
        axis,
        isOthers: series[part.index]?.isOthers === true,
      }),
    )}</g>`;
  });
  return html`<div class="with-legend">${plot({
    title: `Cost by ${unit} and model; the table below has its numbers`,
    ...{ unit, buckets, axis },
    axisLabel: (value) => dollars(value.toFixed(tickDigits(axis)), tickDigits(axis)),
    shapes: html`${columns}`,
  })}${legend(chart)}</div>${foldedTable("Cost by model as a table", costColumns(chart, digits), [...buckets.keys()])}`;
}

/** What costs nothing would only be a name in the legend. */
function withoutFree(chart: TimeSeries): TimeSeries {
  const series = chart.series.filter(({ values }) => values.some((value) => Number(value) !== 0));
  return series.length === 0 ? chart : { ...chart, series };
}

interface Part {
  /** Of the series. */
  readonly index: number;
  readonly from: number;
  readonly to: number;
}

/** Parts above zero stand on each other, parts below hang from each other. */
function stackOf(values: readonly number[]): { parts: Part[]; top: number; bottom: number } {
  const parts: Part[] = [];
  let top = 0;
  let bottom = 0;
  for (const [index, value] of values.entries()) {
    if (value > 0) {
      parts.push({ index, from: top, to: top + value });
      top += value;
    } else if (value < 0) {
      parts.push({ index, from: bottom + value, to: bottom });
      bottom += value;
    }
  }
  return { parts, top, bottom };
}

function columnPart(
  { index, from, to }: Part,
  { x, axis, isOthers }: { x: number; axis: Axis; isOthers: boolean },
): Markup {
  const y = 100 - heightOf(to, axis);
  const height = heightOf(to, axis) - heightOf(from, axis);
  return html`<rect class="${colorOf(index, isOthers)}" x="${rounded(x)}" y="${rounded(y)}" width="${COLUMN}" height="${rounded(height)}"/>`;
}

/** Class of a series' color. */
export function colorOf(index: number, isOthers: boolean): string {
  return isOthers ? "s-others" : `s${index + 1}`;
}

function legend({ series }: TimeSeries): Markup {
  const digits = digitsFor(series.map(({ total }) => total));
  const all = Number(sumOf(series.map(({ total }) => total ?? "0")));
  return html`<ol class="legend">${series.map(({ name, total, isOthers }, index) => {
    const share = all > 0 ? html`<small>${percent(Number(total) / all)}</small>` : undefined;
    return html`<li><i class="${colorOf(index, isOthers)}"></i><span class="name">${stored(name)}</span><span class="amount">${dollars(total ?? "0", digits)} ${share}</span></li>`;
  })}</ol>`;
}

function costColumns({ unit, buckets, series }: TimeSeries, digits: number): TableColumn<number>[] {
  return [
    { head: unit, cell: (bucket) => html`${bucketLabel(buckets[bucket] ?? "", unit)}` },
    ...series.map(
      ({ name, values }): TableColumn<number> => ({
        head: name,
        isNumber: true,
        cell: (bucket) => html`${dollars(values[bucket] ?? "0", digits)}`,
      }),
    ),
    {
      head: "total",
      isNumber: true,
      cell: (bucket) => html`${dollars(sumOf(series.map(({ values }) => values[bucket] ?? "0")), digits)}`,
    },
  ];
}
