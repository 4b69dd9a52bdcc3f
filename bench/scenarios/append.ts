import { type Contender, interleave } from "../measuring/rounds.ts";
import { lineOf } from "../report/compare.ts";
import type { AppendCost, Line } from "../report/line.ts";
import { newSessionId } from "../stores/conversation.ts";
import type { WorkerConfig } from "../worker/operations.ts";
import { startWorker, type Worker } from "../worker/start-worker.ts";
import { AppendLog } from "./append-log.ts";
import { type Bench, NAMES } from "./bench.ts";
import { pgbenchContender } from "./pgbench-contender.ts";
import type { Findings } from "./scenario.ts";

export const APPEND = "Append one message and move the tip";
export const THREAD_LENGTHS = [1, 100, 1_000] as const;
/** Of the sessions that are appended to, so that they look like those of agents at work. */
export const MESSAGES_BEFORE = 250;

export const langGraphPut = (messages: number) =>
  `PostgresSaver.put, ${messages.toLocaleString("en")} messages`;
export const connections = (width: number) => `${width} connection${width === 1 ? "" : "s"}`;

const WIDTHS = [1, 8, 32] as const;

/** One message at the tip of a branch of an open session, again and again; each connection has a session of its own. */
export async function measureAppends(bench: Bench): Promise<Findings> {
  await fill(bench);
  await using stack = new AsyncDisposableStack();
  const peers = startPeers(bench, stack);
  const lines: Line[] = [];
  const appendCosts: AppendCost[] = [];
  const notes: string[] = [];
  for (const width of bench.options.isQuick ? WIDTHS.slice(0, 2) : WIDTHS) {
    const log = new AppendLog();
    const pgbench = await pgbenchContender(bench, { width, messages: MESSAGES_BEFORE }, log);
    const contenders = [
      ourselves(bench, width, log),
      ...(pgbench === undefined ? [] : [pgbench]),
      ...peers.map((peer) => peerContender(bench, width, peer)),
    ];
    const samples = await interleave(contenders, { rounds: bench.options.isQuick ? 2 : 5 });
    await appendToNewSessions(bench, width, log);
    lines.push(lineOf({ section: APPEND, work: connections(width), unit: "per second" }, samples));
    appendCosts.push(log.costOf(width));
    if (log.refusals > 0) {
      notes.push(`${log.refusals} of our appends on ${connections(width)} were refused after 20 repeats.`);
    }
    if (pgbench === undefined) notes.push(`No pgbench at ${connections(width)}: set PGBENCH to where it is.`);
  }
  return { lines, appendCosts, notes };
}

/** Sessions that others have used before, so that plans are those of a database that is in use. */
async function fill(bench: Bench): Promise<void> {
  const first = newSessionId();
  const ids = Array.from({ length: bench.options.isQuick ? 100 : 300 }, (_, index) => first + index);
  await bench.worker("postgres").call("createSessions", { ids, messages: MESSAGES_BEFORE });
  await bench.settle();
}

interface Peer {
  readonly name: string;
  readonly worker: Worker;
  readonly messages?: number;
}

function startPeers(bench: Bench, stack: AsyncDisposableStack): Peer[] {
  const { langGraphUrl, emmettUrl, postmasterPid } = bench.server;
  const start = (config: Pick<WorkerConfig, "store" | "url">) =>
    stack.use(startWorker({ ...config, directory: bench.directory, postmasterPid }));
  const langGraph = start({ store: "langgraph", url: langGraphUrl });
  return [
    { name: NAMES.sqlite, worker: bench.worker("sqlite") },
    { name: NAMES.jsonl, worker: bench.worker("jsonl") },
    ...THREAD_LENGTHS.map((messages) => ({ name: langGraphPut(messages), worker: langGraph, messages })),
    { name: "Emmett appendToStream", worker: start({ store: "emmett", url: emmettUrl }) },
  ];
}

function peerContender(
  { options }: Bench,
  width: number,
  { name, worker, messages = MESSAGES_BEFORE }: Peer,
): Contender {
  return {
    name,
    async sample() {
      const forMs = options.isQuick ? 300 : 750;
      const { appends, ms } = await worker.call("append", { width, messages, forMs });
      return (appends / ms) * 1_000;
    },
  };
}

function ourselves(bench: Bench, width: number, log: AppendLog): Contender {
  const forMs = bench.options.isQuick ? 500 : 2_000;
  return {
    name: NAMES.postgres,
    async sample() {
      const input = { width, messages: MESSAGES_BEFORE, forMs };
      return log.ours(await bench.worker("postgres").call("append", input));
    },
  };
}

/** Sessions that begin at the same time lie side by side in the indexes, so their commits see more of each other. */
async function appendToNewSessions(bench: Bench, width: number, log: AppendLog): Promise<void> {
  const { isQuick } = bench.options;
  for (let round = 0; round < (isQuick ? 1 : 3); round++) {
    const input = { width, messages: 0, forMs: isQuick ? 300 : 750 };
    log.oursInNewSessions(await bench.worker("postgres").call("append", input));
  }
}
