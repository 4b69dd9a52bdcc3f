import { lineOf } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { PI_CATALOG_READS } from "../tasks/pi-catalog.ts";
import { type Bench, SESSION_STORES } from "./bench.ts";
import type { Findings } from "./scenario.ts";
import { timeTask } from "./time-task.ts";

export const CATALOG = "List closed sessions";
const STORES = [...SESSION_STORES, "sqlite-shared"] as const;

/** pi's scenario of a catalog. SQLite also with all sessions in one file, which it can do but does not by default. */
export async function measureCatalog(bench: Bench): Promise<Findings> {
  const { isQuick } = bench.options;
  const count = isQuick ? 500 : 10_000;
  const group = `catalog-${count}`;
  await Promise.all(STORES.map((store) => bench.worker(store).call("addSessions", { group, count })));
  await bench.settle();
  const lines: Line[] = [];
  for (const task of PI_CATALOG_READS.keys()) {
    const rounds = isQuick ? 2 : 3;
    const samples = await timeTask(bench, STORES, { task, group, rounds, isRead: true, isLong: true });
    const work = `${task}, ${count.toLocaleString("en")} sessions`;
    lines.push(lineOf({ section: CATALOG, work, unit: "ms" }, samples));
  }
  return { lines };
}
