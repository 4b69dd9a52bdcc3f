import { interleave } from "../measuring/rounds.ts";
import { median } from "../measuring/statistics.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { PI_FORKS } from "../tasks/pi-forks.ts";
import { type Bench, NAMES, SESSION_STORES, type SessionStoreName } from "./bench.ts";
import { GrowthLog } from "./growth-log.ts";
import { atSize } from "./read.ts";
import type { Findings } from "./scenario.ts";

export const FORK = "Fork and delete a session";
const DELETION = "delete a closed session";

type Samples = Map<string, number[]>;

/** pi's fork scenario, and the deletion of each fork, at all sizes. */
export async function measureForks(bench: Bench): Promise<Findings> {
  const lines: Line[] = [];
  const growth = new GrowthLog();
  for (const entries of bench.sizes) {
    const group = await bench.seeded(entries);
    const rounds = bench.options.isQuick ? 2 : roundsAt(entries);
    for (const scenario of PI_FORKS) {
      const { forks, deletions } = await timeForks(bench, { group, scenario, rounds });
      for (const [work, samples] of [
        [scenario, forks],
        [DELETION, deletions],
      ] as const) {
        lines.push(lineOf({ section: FORK, work: atSize(work, entries), unit: "ms" }, samples));
        growth.add(work, entries, median(samples.get(OURS) ?? []));
      }
      await bench.settle();
    }
  }
  return { lines, growth: growth.all() };
}

/** Nothing is forked to warm up: the first of many rounds does that, and of the largest, smaller ones have done it. */
async function timeForks(
  bench: Bench,
  { group, scenario, rounds }: { group: string; scenario: string; rounds: number },
): Promise<{ forks: Samples; deletions: Samples }> {
  const deletions: Samples = new Map(SESSION_STORES.map((store) => [NAMES[store], []]));
  const contender = (store: SessionStoreName) => ({
    name: NAMES[store],
    async sample() {
      const { fork, deletion } = await bench.worker(store).call("forkAndDelete", { group, scenario });
      deletions.get(NAMES[store])?.push(deletion);
      return fork;
    },
  });
  return { forks: await interleave(SESSION_STORES.map(contender), { rounds }), deletions };
}

/** A round of the largest takes a minute, and what takes seconds varies little. */
function roundsAt(entries: number): number {
  if (entries <= 1_000) return 11;
  return entries <= 10_000 ? 5 : 1;
}
