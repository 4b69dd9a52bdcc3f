import { serverCpuMs } from "../measuring/cpu.ts";
import type { AppendStore, Lane } from "../stores/append-store.ts";
import type { AppendInput, AppendSample } from "./operations.ts";

/** Opens connections and plans statements, on each of them. */
const WARM_UPS_OF_EACH = 3;
/** Of the time that is measured. Code is compiled by and by, while it runs. */
const WARM_UP_SHARE = 0.5;

/** Appends for a while, in so many new conversations at once. */
export async function appendFor(
  store: AppendStore,
  { width, forMs, messages }: AppendInput,
  postmasterPid: number | undefined,
): Promise<AppendSample> {
  const lanes = await store.openLanes(width, messages);
  const attempt = refusable(store);
  const attempts = lanes.map((append) => () => attempt(append));
  await Promise.all(attempts.map((attempt) => repeat(attempt, WARM_UPS_OF_EACH)));
  await attemptFor(attempts, WARM_UP_SHARE * forMs);
  const repeatsBefore = store.repeats?.() ?? 0;
  const serverBefore = await serverCpu(postmasterPid);
  const clientBefore = process.cpuUsage();
  const { appends, refusals, ms } = await attemptFor(attempts, forMs);
  const { user, system } = process.cpuUsage(clientBefore);
  const serverAfter = await serverCpu(postmasterPid);
  return {
    appends,
    ms,
    refusals,
    repeats: (store.repeats?.() ?? 0) - repeatsBefore,
    clientCpuMs: (user + system) / 1_000,
    ...(serverBefore === undefined || serverAfter === undefined
      ? {}
      : { serverCpuMs: serverAfter - serverBefore }),
  };
}

/** Each again and again, all at once. */
async function attemptFor(
  attempts: readonly (() => Promise<boolean>)[],
  forMs: number,
): Promise<{ appends: number; refusals: number; ms: number }> {
  const start = performance.now();
  let appends = 0;
  let refusals = 0;
  await Promise.all(
    attempts.map(async (attempt) => {
      while (performance.now() - start < forMs) {
        if (await attempt()) appends++;
        else refusals++;
      }
    }),
  );
  return { appends, refusals, ms: performance.now() - start };
}

/** Tells whether it was done, or the caller should try again. */
function refusable({ isRefusal }: AppendStore): (append: Lane) => Promise<boolean> {
  return async (append) => {
    try {
      await append();
      return true;
    } catch (error) {
      if (isRefusal?.(error) !== true) throw error;
      return false;
    }
  };
}

async function serverCpu(postmasterPid: number | undefined): Promise<number | undefined> {
  return postmasterPid === undefined ? undefined : serverCpuMs(postmasterPid);
}

async function repeat(work: () => Promise<unknown>, times: number): Promise<void> {
  for (let time = 0; time < times; time++) await work();
}
