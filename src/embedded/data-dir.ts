import { randomBytes } from "node:crypto";
import { access, chown, constants, link, mkdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { EmbeddedServerError } from "./errors.ts";
import type { Owner } from "./server-user.ts";

/** The files of an embedded server, all below one directory. */
export interface DataDir {
  /** Absolute, without symbolic links: two spellings of one directory are one server. */
  readonly path: string;
  /** The PostgreSQL data directory. It exists exactly when `initdb` has completed. */
  readonly clusterDir: string;
  /** The superuser's password, mode 0600. Written once, before the cluster. */
  readonly passwordFile: string;
  /** The port of the last start, so that the next one can take the same. */
  readonly portFile: string;
  readonly logFile: string;
}

/** Makes sure that the directory exists and can be written. A directory that exists keeps its mode. */
export async function openDataDir(requested: string): Promise<DataDir> {
  try {
    // Others may enter, but not list: the server's user must get through when root owns this directory.
    await mkdir(requested, { recursive: true, mode: 0o711 });
    const path = await realpath(requested);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    return {
      path,
      clusterDir: join(path, "cluster"),
      passwordFile: join(path, "password"),
      portFile: join(path, "port"),
      logFile: join(path, "server.log"),
    };
  } catch (cause) {
    throw new EmbeddedServerError(
      "server_data_dir",
      `The data directory ${resolve(requested)} cannot be used (${(cause as Error).message})`,
      "name a directory that this user can create, read and write",
      { cause },
    );
  }
}

/** Reads the password; the first call makes it. Of several processes at once, one makes it and all read that one. */
export async function ensurePassword(dataDir: DataDir, owner: Owner | undefined): Promise<string> {
  const existing = await readPassword(dataDir);
  if (existing !== undefined) return existing;
  const draft = `${dataDir.passwordFile}.${randomBytes(6).toString("hex")}.partial`;
  try {
    await writeFile(draft, `${randomBytes(24).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
    if (owner !== undefined) await chown(draft, owner.uid, owner.gid);
    await link(draft, dataDir.passwordFile).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { force: true });
  }
  return (await readPassword(dataDir)) ?? "";
}

/** Undefined when there is none. */
export async function readPassword(dataDir: DataDir): Promise<string | undefined> {
  try {
    return (await readFile(dataDir.passwordFile, "utf8")).trim();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new EmbeddedServerError(
      "server_data_dir",
      `The password of the data directory ${dataDir.path} cannot be read`,
      `run as the user who created it, or use another data directory`,
      { cause },
    );
  }
}
