import { lineOf } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { PI_CATALOG_WRITES } from "../tasks/pi-catalog.ts";
import { PI_WRITES } from "../tasks/pi-writes.ts";
import { type Bench, SESSION_STORES } from "./bench.ts";
import type { Findings } from "./scenario.ts";
import { timeTask } from "./time-task.ts";

export const WRITE = "Write to a storage; create, open, delete a session";

/** pi's write scenarios, each time on a new session. */
export async function measureWrites(bench: Bench): Promise<Findings> {
  const rounds = bench.options.isQuick ? 3 : 15;
  const lines: Line[] = [];
  for (const task of [...PI_WRITES.keys(), ...PI_CATALOG_WRITES.keys()]) {
    const samples = await timeTask(bench, SESSION_STORES, { task, group: "writes", rounds, isRead: false });
    lines.push(lineOf({ section: WRITE, work: task, unit: "ms" }, samples));
  }
  return { lines };
}
