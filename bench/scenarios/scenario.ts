import type { AppendCost, Growth, Line } from "../report/line.ts";
import type { Bench } from "./bench.ts";

export interface Findings {
  readonly lines?: readonly Line[];
  readonly growth?: readonly Growth[];
  readonly appendCosts?: readonly AppendCost[];
  /** What the reader of the tables must know. */
  readonly notes?: readonly string[];
}

export type Scenario = (bench: Bench) => Promise<Findings>;
