import { median } from "../measuring/statistics.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { FIRST_PAGE } from "../tasks/branch-tasks.ts";
import { PI_READS } from "../tasks/pi-reads.ts";
import { type Bench, SESSION_STORES } from "./bench.ts";
import { GrowthLog } from "./growth-log.ts";
import type { Findings } from "./scenario.ts";
import { timeTask } from "./time-task.ts";

export const READ = "Read an open session";
/** What {@link measureReads} measures. */
export const READS = [...PI_READS.keys(), FIRST_PAGE];

export const atSize = (work: string, entries: number) => `${work}, ${entries.toLocaleString("en")} entries`;

/** pi's read scenarios, and the first page of a branch, at all sizes. */
export async function measureReads(bench: Bench): Promise<Findings> {
  const rounds = bench.options.isQuick ? 2 : 11;
  const lines: Line[] = [];
  const growth = new GrowthLog();
  for (const entries of bench.sizes) {
    const group = await bench.seeded(entries);
    for (const task of READS) {
      const samples = await timeTask(bench, SESSION_STORES, { task, group, rounds, isRead: true });
      lines.push(lineOf({ section: READ, work: atSize(task, entries), unit: "ms" }, samples));
      growth.add(task, entries, median(samples.get(OURS) ?? []));
    }
  }
  return { lines, growth: growth.all() };
}
