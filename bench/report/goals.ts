import { APPEND, connections, langGraphPut } from "../scenarios/append.ts";
import { NAMES } from "../scenarios/bench.ts";
import { CONTEXT } from "../scenarios/context.ts";
import { FORK } from "../scenarios/fork.ts";
import { IMPORT, RAW_COPY } from "../scenarios/import.ts";
import { PGBENCH } from "../scenarios/pgbench-contender.ts";
import { atSize, READ, READS } from "../scenarios/read.ts";
import { BY_HAND, USAGE } from "../scenarios/usage.ts";
import { PI_FORKS } from "../tasks/pi-forks.ts";
import type { Line } from "./line.ts";

export interface Goal {
  readonly text: string;
  /** The least ratio that reaches it. */
  readonly goal: number;
  /** Undefined if it was not measured. */
  readonly ratio: number | undefined;
}

const LARGEST = 100_000;

/** What the project set itself, and what came out. */
export function goalsOf(lines: readonly Line[]): Goal[] {
  const ratio = (section: string, work: string | undefined, other: string) =>
    lines
      .find((line) => line.section === section && (work === undefined || line.work === work))
      ?.others.find(({ name }) => name === other)?.ratio;
  return [
    ...[1, 8, 32].map((width) => ({
      text: `append on ${connections(width)}, of pgbench`,
      goal: 0.8,
      ratio: ratio(APPEND, connections(width), PGBENCH),
    })),
    {
      text: "append on 1 connection, of SQLite",
      goal: 1,
      ratio: ratio(APPEND, connections(1), NAMES.sqlite),
    },
    {
      text: "append on 1 connection, of LangGraph at 100 messages",
      goal: 3,
      ratio: ratio(APPEND, connections(1), langGraphPut(100)),
    },
    ...READS.map((read) => ({
      text: `${atSize(read, LARGEST)}, of SQLite`,
      goal: 1,
      ratio: ratio(READ, atSize(read, LARGEST), NAMES.sqlite),
    })),
    ...lines
      .filter(({ section }) => section === USAGE)
      .map(({ work }) => ({
        text: `${work}, of SQL by hand`,
        goal: work.startsWith("all") ? 50 : 0.67,
        ratio: ratio(USAGE, work, BY_HAND),
      })),
    { text: "import, of COPY", goal: 0.5, ratio: ratio(IMPORT, undefined, RAW_COPY) },
    { text: "context, of SQLite", goal: 1, ratio: ratio(CONTEXT, undefined, NAMES.sqlite) },
    ...PI_FORKS.map((fork) => ({
      text: `${atSize(fork, LARGEST)}, of SQLite`,
      goal: 10,
      ratio: ratio(FORK, atSize(fork, LARGEST), NAMES.sqlite),
    })),
  ];
}
