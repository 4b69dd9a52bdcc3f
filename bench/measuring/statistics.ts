export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper;
}

/** Half the distance between the quartiles, as a share of the median: how far to trust it. */
export function spread(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN;
  return (at(0.75) - at(0.25)) / 2 / median(samples);
}

/** The median of the rounds' own ratios: what slows a round down slows both sides of it down. */
export function medianRatio(numerators: readonly number[], denominators: readonly number[]): number {
  return median(numerators.map((numerator, round) => numerator / (denominators[round] ?? Number.NaN)));
}
