import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Client } from "pg";
import { type EmbeddedServer, startEmbeddedServer } from "../../src/embedded/server.ts";

/** A directory of mode 0700 that is removed when disposed. */
export async function scratchDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "pi-embedded-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Starts a server whose data may be lost. */
export function startScratchServer(
  dataDir: string,
  settings: Record<string, string> = {},
): Promise<EmbeddedServer> {
  return startEmbeddedServer({
    dataDir,
    settings: { fsync: "off", ...settings },
    initdbFlags: ["--no-sync"],
  });
}

/** Runs one statement on a connection of its own; returns the first column. */
export async function query(connectionString: string, statement: string): Promise<unknown[]> {
  const client = new Client({ connectionString });
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query<unknown[]>({ text: statement, rowMode: "array" });
    return rows.map((row) => row[0]);
  } finally {
    await client.end();
  }
}

export async function postmasterPid(dataDir: string): Promise<number> {
  return Number.parseInt(await readFile(join(dataDir, "cluster", "postmaster.pid"), "utf8"), 10);
}

/** Waits until the server refuses connections, because it is shutting down or gone. */
export async function untilRefusing(connectionString: string): Promise<void> {
  const accepts = () =>
    query(connectionString, "select 1").then(
      () => true,
      () => false,
    );
  while (await accepts()) await setTimeout(10);
}
