import { median } from "../measuring/statistics.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { DELETE } from "../tasks/branch-tasks.ts";
import { PI_FORKS } from "../tasks/pi-forks.ts";
import { type Bench, SESSION_STORES } from "./bench.ts";
import { GrowthLog } from "./growth-log.ts";
import { atSize } from "./read.ts";
import type { Findings } from "./scenario.ts";
import { timeTask } from "./time-task.ts";

export const FORK = "Fork and delete a session";

/** pi's fork scenario, and the deletion of such a fork, at all sizes. */
export async function measureForks(bench: Bench): Promise<Findings> {
  const lines: Line[] = [];
  const growth = new GrowthLog();
  for (const entries of bench.sizes) {
    const group = await bench.seeded(entries);
    for (const task of [...PI_FORKS.keys(), DELETE]) {
      const samples = await timeTask(bench, SESSION_STORES, {
        task,
        group,
        rounds: bench.options.isQuick ? 2 : roundsAt(entries),
        isRead: false,
      });
      lines.push(lineOf({ section: FORK, work: atSize(task, entries), unit: "ms" }, samples));
      growth.add(task, entries, median(samples.get(OURS) ?? []));
      await bench.settle();
    }
  }
  return { lines, growth: growth.all() };
}

function roundsAt(entries: number): number {
  if (entries <= 1_000) return 11;
  return entries <= 10_000 ? 7 : 5;
}
