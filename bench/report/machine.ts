import { readFile } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { fdatasyncMs } from "../measuring/disk.ts";
import { findPgbench, pgbenchVersion } from "../pgbench/pgbench.ts";
import type { BenchServer } from "../server/bench-server.ts";

const PEERS = [
  "@earendil-works/pi-agent-core",
  "@earendil-works/pi-session-backend-sqlite-node",
  "@langchain/langgraph-checkpoint-postgres",
  "@event-driven-io/emmett-postgresql",
  "pg",
];

/** What the numbers depend on. */
export async function describeMachine(
  { version, settings }: BenchServer,
  directory: string,
): Promise<Record<string, string>> {
  const pgbench = await findPgbench();
  const gibibytes = Math.round(totalmem() / 2 ** 30);
  const load = loadavg().map((average) => average.toFixed(1));
  const peers = await Promise.all(PEERS.map(async (name) => `${name} ${await versionOf(name)}`));
  return {
    Machine: `${availableParallelism()} × ${cpus()[0]?.model.trim()}, ${gibibytes} GiB, ${type()} ${release()}`,
    "Load before": load.join(", "),
    Disk: `one fdatasync takes ${(await fdatasyncMs(directory)).toFixed(2)} ms`,
    PostgreSQL: `${version}; ${Object.entries(settings)
      .map(([name, setting]) => `${name} = ${setting}`)
      .join(", ")}`,
    pgbench: pgbench === undefined ? "not found" : await pgbenchVersion(pgbench),
    Node: process.version,
    Peers: peers.join(", "),
  };
}

async function versionOf(name: string): Promise<string> {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  return (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
}
