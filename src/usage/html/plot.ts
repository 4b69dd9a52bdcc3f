import type { UsageTimeUnit } from "../../postgres/usage-report-options.ts";
import { type Axis, heightOf, labelled } from "./axis.ts";
import { tickLabel } from "./format.ts";
import { html, type Markup } from "./markup.ts";

/** What is drawn, and what stands around it. */
export interface Plot {
  /** For those who do not see it. */
  readonly title: string;
  readonly unit: UsageTimeUnit;
  readonly buckets: readonly string[];
  readonly axis: Axis;
  readonly axisLabel: (value: number) => string;
  /** In a drawing that is {@link slotsOf} wide and 100 high, from below; it is stretched to the width of the page. */
  readonly shapes: Markup;
}

/** So few columns do not fill the whole width. */
const FEWEST_SLOTS = 12;
const MOST_LABELS = 8;

/** How many buckets have room, and the place of the first one. */
export function slotsOf(buckets: readonly string[]): { slots: number; first: number } {
  const slots = Math.max(buckets.length, FEWEST_SLOTS);
  return { slots, first: (slots - buckets.length) / 2 };
}

/** Text keeps its size while shapes are stretched, so it stands outside of the drawing. */
export function plot({ title, unit, buckets, axis, axisLabel, shapes }: Plot): Markup {
  const { slots, first } = slotsOf(buckets);
  const grid = axis.ticks.map((tick) => {
    const y = rounded(100 - heightOf(tick, axis));
    return html`<path class="${tick === 0 ? "zero" : "grid"}" d="M0 ${y}H${slots}"/>`;
  });
  const left = (index: number) => rounded(((first + index + 0.5) / slots) * 100);
  return html`<div class="plot">
<div class="y" aria-hidden="true">${axis.ticks.map(
    (tick) => html`<span style="bottom:${rounded(heightOf(tick, axis))}%">${axisLabel(tick)}</span>`,
  )}</div>
<svg role="img" aria-label="${title}" viewBox="0 0 ${slots} 100" preserveAspectRatio="none">${grid}${shapes}</svg>
<div class="x" aria-hidden="true">${labelled(buckets.length, slots, MOST_LABELS).map(
    (index, place) =>
      html`<span class="${place % 2 === 0 ? "" : "minor"}" style="left:${left(index)}%">${tickLabel(buckets[index] ?? "", unit)}</span>`,
  )}</div>
</div>`;
}

/** As short as a drawing allows. */
export function rounded(coordinate: number): number {
  return Math.round(coordinate * 1000) / 1000;
}
