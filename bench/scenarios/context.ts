import { interleave } from "../measuring/rounds.ts";
import { lineOf } from "../report/compare.ts";
import { CONTEXT_TASK, MESSAGES_AFTER_COMPACTION } from "../tasks/branch-tasks.ts";
import { startWorker } from "../worker/start-worker.ts";
import { type Bench, SESSION_STORES } from "./bench.ts";
import type { Findings } from "./scenario.ts";
import { warmContender, warmContenders } from "./time-task.ts";

export const CONTEXT = "Build the context for a model";

/** Of a thread from which nothing is dropped. Not as many as the others have: its checkpoints would be too large to read. */
const KEPT = 10_000;

/**
 * What an agent reads before each call of a model. LangGraph's checkpoint is the whole state: either it still has
 * all messages, or the application has dropped those that were summed up, and the state no longer has them.
 */
export async function measureContext(bench: Bench): Promise<Findings> {
  const entries = bench.largest.toLocaleString("en");
  const group = await bench.seeded(bench.largest);
  for (const store of SESSION_STORES) {
    await bench.worker(store).call("compact", { group, messages: MESSAGES_AFTER_COMPACTION });
  }
  await bench.settle();
  const { langGraphUrl: url } = bench.server;
  await using langGraph = startWorker({ store: "langgraph", directory: bench.directory, url });
  const thread = (name: string, messages: number) =>
    warmContender(name, langGraph, { task: "thread", group: String(messages), isRead: true });
  const contenders = [
    ...(await warmContenders(bench, SESSION_STORES, { task: CONTEXT_TASK, group, isRead: true })),
    await thread("PostgresSaver.getTuple, what is summed up dropped", MESSAGES_AFTER_COMPACTION + 1),
    await thread(`PostgresSaver.getTuple, ${KEPT.toLocaleString("en")} messages kept`, KEPT),
  ];
  const samples = await interleave(contenders, { rounds: bench.options.isQuick ? 2 : 7 });
  const work = `${entries} entries, the last compaction ${MESSAGES_AFTER_COMPACTION} before the tip`;
  return { lines: [lineOf({ section: CONTEXT, work, unit: "ms" }, samples)] };
}
