import { randomBytes } from "node:crypto";
import { access, chown, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Binaries } from "./binaries.ts";
import { type DataDir, ensurePassword, readPassword } from "./data-dir.ts";
import { EmbeddedServerError } from "./errors.ts";
import { run } from "./run.ts";
import type { ServerUser } from "./server-user.ts";

export const SUPERUSER = "postgres";

const PARTIAL_CLUSTER = /^cluster\..+\.partial$/;
/** No `initdb` takes as long, so an older partial cluster belongs to nobody. */
const ABANDONED_AFTER_MS = 10 * 60_000;

/**
 * Creates the cluster unless it exists, and returns the superuser's password. `initdb` works on a directory of
 * its own that is renamed when complete: an interrupted one leaves nothing that looks like a cluster, and of two
 * processes that start at once the slower one takes the faster one's.
 */
export async function ensureCluster(
  dataDir: DataDir,
  binaries: Binaries,
  user: ServerUser,
  initdbFlags: readonly string[],
): Promise<string> {
  if (await exists(dataDir.clusterDir)) return existingPassword(dataDir);
  const password = await ensurePassword(dataDir, user.owner);
  const partial = `${dataDir.clusterDir}.${randomBytes(6).toString("hex")}.partial`;
  try {
    await mkdir(partial, { mode: 0o700 });
    if (user.owner !== undefined) await chown(partial, user.owner.uid, user.owner.gid);
    await initdb(partial, dataDir, binaries, user, initdbFlags);
    await moveIntoPlace(partial, dataDir);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  await removeAbandoned(dataDir);
  return password;
}

async function existingPassword(dataDir: DataDir): Promise<string> {
  const password = await readPassword(dataDir);
  if (password !== undefined) return password;
  throw new EmbeddedServerError(
    "server_data_dir",
    `The data directory ${dataDir.path} has a cluster, but its password file is gone`,
    `restore ${dataDir.passwordFile}, or move the directory away to begin with an empty one`,
  );
}

async function initdb(
  target: string,
  dataDir: DataDir,
  binaries: Binaries,
  user: ServerUser,
  flags: readonly string[],
): Promise<void> {
  const [command = binaries.initdb, ...args] = [
    ...user.prefix,
    binaries.initdb,
    `--pgdata=${target}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${dataDir.passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    ...flags,
  ];
  const { exitCode, lines } = await run(command, args, user.ids);
  if (exitCode === 0) return;
  throw new EmbeddedServerError(
    "server_init",
    `PostgreSQL could not initialise ${dataDir.path}`,
    "remove the cause that it names below, and try again",
    { log: lines.slice(-20) },
  );
}

async function moveIntoPlace(partial: string, dataDir: DataDir): Promise<void> {
  try {
    await rename(partial, dataDir.clusterDir);
  } catch (cause) {
    if (await exists(dataDir.clusterDir)) return; // another process was faster
    throw new EmbeddedServerError(
      "server_data_dir",
      `The new cluster cannot be moved to ${dataDir.clusterDir}`,
      "name a directory that this user can write",
      { cause },
    );
  }
  const directory = await open(dataDir.path, "r");
  try {
    await directory.sync(); // a rename is durable once its directory is
  } finally {
    await directory.close();
  }
}

async function removeAbandoned(dataDir: DataDir): Promise<void> {
  for (const name of await readdir(dataDir.path)) {
    if (!PARTIAL_CLUSTER.test(name)) continue;
    const path = join(dataDir.path, name);
    const age = Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now());
    if (age > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
