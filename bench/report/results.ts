import type { Goal } from "./goals.ts";
import type { AppendCost, Growth, Line } from "./line.ts";

/** What a run found out; also what is written as JSON. */
export interface Results {
  readonly startedAt: string;
  readonly minutes: number;
  readonly isQuick: boolean;
  readonly machine: Readonly<Record<string, string>>;
  readonly notes: readonly string[];
  readonly lines: readonly Line[];
  readonly growth: readonly Growth[];
  readonly appendCosts: readonly AppendCost[];
  readonly goals: readonly Goal[];
}
