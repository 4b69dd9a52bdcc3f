import { readFile } from "node:fs/promises";

/** Of Linux, where everything that reports them counts a hundred a second. */
const MS_PER_TICK = 10;

/**
 * What a PostgreSQL server has computed so far, all of its processes together, in milliseconds. Undefined where the
 * system does not tell.
 */
export async function serverCpuMs(postmasterPid: number): Promise<number | undefined> {
  try {
    const children = await readFile(`/proc/${postmasterPid}/task/${postmasterPid}/children`, "utf8");
    const own = await ticks(postmasterPid, { withEnded: true });
    const running = await Promise.all(
      children
        .split(" ")
        .filter(Boolean)
        .map((pid) => ticks(Number(pid), { withEnded: false }).catch(() => 0)),
    );
    return running.reduce((sum, each) => sum + each, own) * MS_PER_TICK;
  } catch {
    return undefined;
  }
}

/** @param withEnded also those of children that have ended */
async function ticks(pid: number, { withEnded }: { withEnded: boolean }): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name, in brackets, may contain anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, withEnded ? 15 : 13).reduce((sum, field) => sum + Number(field), 0);
}
