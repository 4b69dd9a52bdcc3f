/** The numbers beside a chart, in steps that are easily read. */
export interface Axis {
  readonly min: number;
  readonly max: number;
  readonly ticks: readonly number[];
}

const MOST_TICKS = 5;

/** From zero, or below it, to a round number that is no less than `largest`. */
export function axisOf(smallest: number, largest: number): Axis {
  const span = Math.max(largest, 0) - Math.min(smallest, 0);
  if (span === 0) return { min: 0, max: 1, ticks: [0] };
  const step = roundStep(span / (MOST_TICKS - 1));
  const first = Math.floor(Math.min(smallest, 0) / step);
  const last = Math.ceil(Math.max(largest, 0) / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  return { min: first * step, max: last * step, ticks };
}

/** 1, 2 or 5 by a power of ten, and no less than `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

/** The height of a value in a chart, in percent from below. */
export function heightOf(value: number, { min, max }: Axis): number {
  return ((value - min) / (max - min)) * 100;
}

/** How many digits after the point tell the ticks apart. */
export function tickDigits({ ticks: [first = 0, second = 1] }: Axis): number {
  return Math.max(0, -Math.floor(Math.log10(second - first) + 1e-9));
}

/** Which of so many places have a label, at equal distances, where there is room for `most` in so many slots. */
export function labelled(places: number, slots: number, most: number): number[] {
  const step = Math.ceil(slots / most);
  return Array.from({ length: Math.ceil(places / step) }, (_, index) => index * step);
}
