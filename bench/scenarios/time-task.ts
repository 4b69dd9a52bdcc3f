import { type Contender, interleave } from "../measuring/rounds.ts";
import type { Worker } from "../worker/start-worker.ts";
import { type Bench, NAMES, type SessionStoreName } from "./bench.ts";

/** A shorter sample would say more about the clock and the garbage collector. */
const SAMPLE_MS = 25;
const MAX_TIMES = 200;

export interface TaskInGroup {
  readonly task: string;
  readonly group: string;
  /** It leaves everything as it was, so a sample is many of them where one is short. */
  readonly isRead: boolean;
  /** It takes seconds, of which a cold start would be a small part: no time is spent on warming up. */
  readonly isLong?: boolean;
}

/** Lets these stores do the same task in interleaved rounds. The samples are milliseconds. */
export async function timeTask(
  bench: Bench,
  stores: readonly SessionStoreName[],
  { rounds, ...task }: TaskInGroup & { rounds: number },
): Promise<Map<string, number[]>> {
  return interleave(await warmContenders(bench, stores, task), { rounds });
}

/** Stores that have done the task, and are ready to do it again. */
export async function warmContenders(
  bench: Bench,
  stores: readonly SessionStoreName[],
  task: TaskInGroup,
): Promise<Contender[]> {
  const contenders: Contender[] = [];
  for (const store of stores) contenders.push(await warmContender(NAMES[store], bench.worker(store), task));
  return contenders;
}

export async function warmContender(
  name: string,
  worker: Worker,
  { task, group, isRead, isLong = false }: TaskInGroup,
): Promise<Contender> {
  const time = (times: number) => worker.call("time", { task, group, times });
  if (isLong) return { name, sample: () => time(1) };
  const first = await time(1);
  const times = isRead ? await timesPerSample(time, first) : 1;
  return { name, sample: () => time(times) };
}

async function timesPerSample(time: (times: number) => Promise<number>, first: number): Promise<number> {
  const fit = (ms: number) => Math.max(1, Math.min(Math.round(SAMPLE_MS / ms), MAX_TIMES));
  const warm = fit(first) === 1 ? await time(1) : await time(fit(first));
  return fit(warm);
}
