import type { UsageTimeUnit } from "../../postgres/usage-report-options.ts";
import type { Axis } from "./axis.ts";
import { bucketLabel, percent } from "./format.ts";
import { html, type Markup } from "./markup.ts";
import { plot, rounded, slotsOf } from "./plot.ts";
import { foldedTable } from "./table.ts";

/** Shares from 0 to 1 along time; null where there is none. */
export interface RatioSeries {
  readonly unit: UsageTimeUnit;
  readonly buckets: readonly string[];
  readonly shares: readonly (number | null)[];
}

const AXIS: Axis = { min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1] };

/** A line that is interrupted where there is no ratio. */
export function ratioChart({ unit, buckets, shares }: RatioSeries): Markup {
  const { first } = slotsOf(buckets);
  const x = (bucket: number) => rounded(first + bucket + 0.5);
  const y = (share: number) => rounded(100 - share * 100);
  const lines = unbroken(shares).map((points) => {
    const line = points.map(({ bucket, share }) => `${x(bucket)} ${y(share)}`).join("L");
    const [start, end] = [points[0]?.bucket ?? 0, points.at(-1)?.bucket ?? 0];
    return html`<path class="area" d="M${x(start)} 100L${line}L${x(end)} 100Z"/><path class="line" d="M${line}"/>`;
  });
  const dots = shares.map((share, bucket) =>
    share === null
      ? undefined
      : html`<g class="column"><title>${bucketLabel(buckets[bucket] ?? "", unit)}: ${percent(share)}</title><rect class="hit" x="${rounded(first + bucket)}" y="0" width="1" height="100"/><path class="dot" d="M${x(bucket)} ${y(share)}h0"/></g>`,
  );
  const drawing = plot({
    title: `Cache-hit ratio by ${unit}; the table below has its numbers`,
    ...{ unit, buckets, axis: AXIS },
    axisLabel: (share) => `${share * 100}%`,
    shapes: html`${lines}${dots}`,
  });
  const columns = [
    { head: unit, cell: (bucket: number) => html`${bucketLabel(buckets[bucket] ?? "", unit)}` },
    {
      head: "cache-hit ratio",
      isNumber: true,
      cell: (bucket: number) => html`${percent(shares[bucket] ?? null)}`,
    },
  ];
  return html`${drawing}${foldedTable("Cache-hit ratio as a table", columns, [...buckets.keys()])}`;
}

type Point = { readonly bucket: number; readonly share: number };

function unbroken(shares: readonly (number | null)[]): Point[][] {
  const lines: Point[][] = [];
  for (const [bucket, share] of shares.entries()) {
    if (share === null) continue;
    const line = lines.at(-1);
    if (line?.at(-1)?.bucket === bucket - 1) line.push({ bucket, share });
    else lines.push([{ bucket, share }]);
  }
  return lines;
}
