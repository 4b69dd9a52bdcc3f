import { readFile } from "node:fs/promises";

/** Of Linux, where everything that reports them counts a hundred a second. */
const MS_PER_TICK = 10;

/**
 * What a PostgreSQL server has computed so far, all of its processes together, in milliseconds. Undefined where the
 * system does not tell.
 */
export async function serverCpuMs(postmasterPid: number): Promise<number | undefined> {
  try {
    let before = await ended(postmasterPid);
    for (;;) {
      const own = await ticks(postmasterPid);
      const running = await Promise.all((await children(postmasterPid)).map(ticks));
      const after = await ended(postmasterPid);
      // A child that ended meanwhile may be in neither sum, or in both.
      if (after === before) return running.reduce((sum, each) => sum + each, own + after) * MS_PER_TICK;
      before = after;
    }
  } catch {
    return undefined;
  }
}

async function children(pid: number): Promise<number[]> {
  const pids = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return pids.split(" ").filter(Boolean).map(Number);
}

/** Of the process itself; 0 if there is none any more. */
async function ticks(pid: number): Promise<number> {
  const [user, system] = await times(pid).catch(() => [0, 0]);
  return (user ?? 0) + (system ?? 0);
}

/** Of its children that have ended. */
async function ended(pid: number): Promise<number> {
  const [, , user, system] = await times(pid);
  return (user ?? 0) + (system ?? 0);
}

/** In user mode and in the kernel, of the process and of its ended children. */
async function times(pid: number): Promise<number[]> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name, in brackets, may contain anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).map(Number);
}
