import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { ensureCluster, SUPERUSER } from "../../src/embedded/cluster.ts";
import { openDataDir } from "../../src/embedded/data-dir.ts";
import { launch, listenOn } from "../../src/embedded/launch.ts";
import { choosePort, HOST } from "../../src/embedded/port.ts";
import { startEmbeddedServer } from "../../src/embedded/server.ts";
import { chooseServerUser } from "../../src/embedded/server-user.ts";

/** A server that is there to be killed. Its data reach the disk, as they do in earnest. */
export interface ChaosServer {
  /** Of the superuser; another one after each start. */
  readonly connectionString: string;
  readonly port: number;
  /** Ends all of its processes at once, as the kernel does, and starts it again: it recovers from its log. */
  crashAndRecover(): Promise<void>;
  stop(): Promise<void>;
}

const SETTINGS = {
  max_connections: "120",
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
  // Each crash then finds something to recover.
  checkpoint_timeout: "1h",
};

/** @param binaries a folder with the programs of another version; default: those of the embedded server */
export async function startChaosServer(dataDir: string, binaries?: string): Promise<ChaosServer> {
  const start = () =>
    binaries === undefined ? startEmbedded(dataDir) : startFrom(dataDir, binaries, Date.now() + 60_000);
  let running = await start();
  return {
    get connectionString() {
      return running.connectionString;
    },
    get port() {
      return Number(new URL(running.connectionString).port);
    },
    async crashAndRecover() {
      await killServer(dataDir);
      running = await start();
    },
    stop: () => running.stop(),
  };
}

interface Running {
  readonly connectionString: string;
  stop(): Promise<void>;
}

async function startEmbedded(dataDir: string): Promise<Running> {
  const server = await startEmbeddedServer({ dataDir, settings: SETTINGS, startTimeoutMs: 120_000 });
  // Processes of the killed server may have let go of the data only now.
  if (server.attached) throw new Error("a server that was killed still answers");
  return server;
}

/** The same for the programs of another PostgreSQL. */
async function startFrom(path: string, folder: string, deadline: number): Promise<Running> {
  const dataDir = await openDataDir(path);
  const binaries = { postgres: join(folder, "postgres"), initdb: join(folder, "initdb") };
  const user = await chooseServerUser(binaries, dataDir.path, dataDir.clusterDir);
  const password = await ensureCluster(dataDir, binaries, user, []);
  const port = await choosePort(dataDir);
  const server = await launch(dataDir, binaries, user, { ...SETTINGS, ...listenOn(port) });
  const connectionString = `postgresql://${SUPERUSER}:${password}@${HOST}:${port}/postgres`;
  while (!(await answers(connectionString))) {
    if (Date.now() > deadline)
      throw new Error(`the server did not start: ${(await server.log()).join("\n")}`);
    if (server.hasEnded()) return startFrom(path, folder, deadline);
    await sleep(20);
  }
  return { connectionString, stop: () => server.stop() };
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

/** The first process first, so that it cannot start others; then those that it has started. */
async function killServer(dataDir: string): Promise<void> {
  const pidFile = join(dataDir, "cluster", "postmaster.pid");
  const postmaster = Number.parseInt(await readFile(pidFile, "utf8"), 10);
  if (!(postmaster > 1)) throw new Error(`no process id in ${pidFile}`);
  process.kill(postmaster, "SIGSTOP");
  for (const pid of [postmaster, ...childrenOf(postmaster)]) kill(pid);
}

function childrenOf(parent: number): number[] {
  const lines = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n");
  return lines
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, ppid]) => ppid === parent)
    .map(([pid]) => pid as number);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
