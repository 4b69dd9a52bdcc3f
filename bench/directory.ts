import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** On the same disk as the checkout: a directory for temporary files may be in memory. */
const DATA = fileURLToPath(new URL(".data/", import.meta.url));
const OF_PROCESS = /^run-(\d+)-/;

/** A new directory for the files of this run. Removes those of runs that were killed. */
export async function createRunDirectory(): Promise<string> {
  await mkdir(DATA, { recursive: true });
  for (const name of await readdir(DATA)) {
    const pid = Number(OF_PROCESS.exec(name)?.[1]);
    if (pid > 0 && !isRunning(pid)) await rm(DATA + name, { recursive: true, force: true });
  }
  return mkdtemp(`${DATA}run-${process.pid}-`);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
