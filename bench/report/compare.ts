import { median, medianRatio, spread } from "../measuring/statistics.ts";
import type { Line, OtherValue, Unit, Value } from "./line.ts";

export const OURS = "pi-session-postgres";

/** Makes a line of what interleaved rounds have measured. */
export function lineOf(
  { section, work, unit }: Pick<Line, "section" | "work" | "unit">,
  samples: ReadonlyMap<string, readonly number[]>,
): Line {
  const ours = samples.get(OURS) ?? [];
  const others = [...samples].filter(([name]) => name !== OURS);
  return {
    section,
    work,
    unit,
    ours: summaryOf(ours),
    others: others.map(([name, theirs]) => otherOf(name, ours, theirs, unit)),
  };
}

function otherOf(name: string, ours: readonly number[], theirs: readonly number[], unit: Unit): OtherValue {
  const ratio = unit === "per second" ? medianRatio(ours, theirs) : medianRatio(theirs, ours);
  return { name, ratio, ...summaryOf(theirs) };
}

function summaryOf(samples: readonly number[]): Value {
  return { median: median(samples), spread: spread(samples), samples };
}
