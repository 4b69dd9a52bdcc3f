import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { DataDir } from "./data-dir.ts";
import { run } from "./run.ts";

/** What a running (or killed) server says about itself in `postmaster.pid`. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
  readonly status: "starting" | "ready" | "stopping";
}

/** Reads `postmaster.pid`; undefined when there is none, or when it is still being written. */
export async function readPostmaster(dataDir: DataDir): Promise<Postmaster | undefined> {
  const text = await readFile(pidFile(dataDir), "utf8").catch(() => "");
  const lines = text.split("\n").map((line) => line.trim());
  const pid = Number(lines[0]);
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined;
  const status = lines[7];
  return {
    pid,
    port: Number(lines[3] ?? 0),
    status: status === "ready" || status === "stopping" ? status : "starting",
  };
}

/**
 * Reads `postmaster.pid` of a server that is alive. A file left by a killed server is no obstacle to PostgreSQL,
 * unless its process id has since gone to another process (usual in restarted containers): such a file is
 * removed.
 */
export async function findLivePostmaster(dataDir: DataDir): Promise<Postmaster | undefined> {
  const postmaster = await readPostmaster(dataDir);
  if (postmaster === undefined || !isAlive(postmaster.pid)) return undefined;
  const command = await commandLine(postmaster.pid);
  if (command === undefined || command.includes(dataDir.clusterDir)) return postmaster;
  await rm(pidFile(dataDir), { force: true });
  return undefined;
}

function pidFile(dataDir: DataDir): string {
  return join(dataDir.clusterDir, "postmaster.pid");
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Undefined when the system does not tell. */
async function commandLine(pid: number): Promise<string | undefined> {
  const fromProc = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined);
  if (fromProc !== undefined) return fromProc.replaceAll("\0", " ");
  const { exitCode, lines } = await run("ps", ["-ww", "-o", "args=", "-p", String(pid)]);
  return exitCode === 0 ? lines.join(" ") : undefined;
}
