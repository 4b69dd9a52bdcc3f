import { interleave } from "../measuring/rounds.ts";
import { lineOf } from "../report/compare.ts";
import { startWorker } from "../worker/start-worker.ts";
import { type Bench, NAMES, SESSION_STORES, type SessionStoreName } from "./bench.ts";
import { atSize } from "./read.ts";
import type { Findings } from "./scenario.ts";

export const MEMORY = "Memory that an open session takes";
const MIB = 2 ** 20;

/** What a process has more after it opened the largest session and read its last 50 entries; each time a new process. */
export async function measureMemory(bench: Bench): Promise<Findings> {
  const entries = bench.largest;
  const group = await bench.seeded(entries);
  for (const store of SESSION_STORES) await bench.worker(store).call("close", { group });
  const resident = new Map<string, number[]>();
  const contenders = SESSION_STORES.map((store) => ({
    name: NAMES[store],
    async sample() {
      const { heap, rss } = await footprint(bench, store, group, entries);
      resident.set(NAMES[store], [...(resident.get(NAMES[store]) ?? []), rss / MIB]);
      return heap / MIB;
    },
  }));
  const heap = await interleave(contenders, { rounds: bench.options.isQuick ? 1 : 3 });
  return {
    lines: [
      lineOf({ section: MEMORY, work: `${atSize("heap", entries)}`, unit: "MiB" }, heap),
      lineOf({ section: MEMORY, work: `${atSize("resident", entries)}`, unit: "MiB" }, resident),
    ],
  };
}

async function footprint(bench: Bench, store: SessionStoreName, group: string, entries: number) {
  await using worker = startWorker(bench.configOf(store));
  return await worker.call("footprint", { group, entries, isVolatile: store === "memory" });
}
