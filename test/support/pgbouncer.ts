import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { Client } from "pg";
import type { TestDatabase } from "./database.ts";

export interface PgBouncerOptions {
  /** How many connections to the server a role gets at most. Default 2, so that clients share them. */
  readonly serverConnections?: number;
  /** More lines for the section [pgbouncer] of its configuration. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** A real PgBouncer in transaction mode in front of the server that all tests share; ends when disposed. */
export interface PgBouncer extends AsyncDisposable {
  /** The same role and database, reached through the pooler. */
  through(connectionString: string): string;
  /** Runs a command of its console, for example `reconnect`. */
  command(text: string): Promise<Record<string, unknown>[]>;
}

/**
 * Whether there is one: in PATH, in /usr/sbin, or where PGBOUNCER_BIN says. REQUIRE_PGBOUNCER, as CI sets it,
 * answers yes in any case, so that tests fail where they would be skipped.
 */
export const hasPgBouncer = findPgBouncer() !== undefined || Boolean(process.env["REQUIRE_PGBOUNCER"]);

/** @param at its two roles can connect through the pooler */
export async function startPgBouncer(
  at: TestDatabase,
  { serverConnections = 2, settings = {} }: PgBouncerOptions = {},
): Promise<PgBouncer> {
  const program = findPgBouncer();
  if (program === undefined) throw new Error("There is no pgbouncer: install it, or set PGBOUNCER_BIN.");
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "pi-pgbouncer-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const port = await freePort();
  const configFile = await configure(directory, at, {
    listen_port: port,
    default_pool_size: serverConnections,
    ...(keepsPreparedStatements(program) ? { max_prepared_statements: 0 } : {}),
    ...settings,
  });
  const pooler = await launch(program, configFile);
  stack.defer(() => stop(pooler));
  const through = (connectionString: string) => {
    const { protocol, username, password, pathname } = new URL(connectionString);
    const credentials = password === "" ? username : `${username}:${password}`;
    return `${protocol}//${credentials}@127.0.0.1:${port}${pathname}`;
  };
  const console = through(at.ownerConnectionString).replace(/[^/]*$/, "pgbouncer");
  const toDispose = stack.move();
  return {
    through,
    command: (text) => runCommand(console, text),
    [Symbol.asyncDispose]: () => toDispose.disposeAsync(),
  };
}

/** @returns the path of the configuration */
async function configure(
  directory: string,
  { connectionString, ownerConnectionString }: TestDatabase,
  settings: Readonly<Record<string, string | number>>,
): Promise<string> {
  const owner = new Client(ownerConnectionString);
  const configFile = join(directory, "pgbouncer.ini");
  const usersFile = join(directory, "users.txt");
  const users = [owner, new Client(connectionString)].map(
    ({ user = "", password }) => `${quoted(user)} ${quoted(password ?? "")}\n`,
  );
  const lines = Object.entries({
    listen_addr: "127.0.0.1",
    unix_socket_dir: "",
    pool_mode: "transaction",
    max_client_conn: 500,
    // Its clients are the tests; the passwords are for the server.
    auth_type: "trust",
    auth_file: usersFile,
    admin_users: owner.user,
    ...settings,
  }).map(([name, value]) => `${name} = ${value}\n`);
  const config = `[databases]\n* = host=${owner.host} port=${owner.port}\n[pgbouncer]\n${lines.join("")}`;
  await writeFile(configFile, config, { mode: 0o600 });
  await writeFile(usersFile, [...new Set(users)].join(""), { mode: 0o600 });
  if (isRoot) {
    for (const path of [directory, configFile, usersFile]) await chown(path, idOf("-u"), idOf("-g"));
  }
  return configFile;
}

async function runCommand(connectionString: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client(connectionString);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

function findPgBouncer(): string | undefined {
  const given = process.env["PGBOUNCER_BIN"];
  if (given) return given;
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin"];
  return folders.map((folder) => join(folder, "pgbouncer")).find((path) => existsSync(path));
}

/** Since 1.21 it can, and later does unless told otherwise. */
function keepsPreparedStatements(program: string): boolean {
  const version = /PgBouncer (\d+)\.(\d+)/.exec(execFileSync(program, ["--version"], { encoding: "utf8" }));
  return Number(version?.[1]) > 1 || Number(version?.[2]) >= 21;
}

/** It refuses to run as root. */
const isRoot = process.getuid?.() === 0;
const OTHER_USER = "nobody";

function idOf(option: "-u" | "-g"): number {
  return Number(execFileSync("id", [option, OTHER_USER], { encoding: "utf8" }));
}

/** Holds one end of a pipe: when this process ends, however it ends, so does the pooler. */
const SUPERVISOR = `
exec 3<&0
"$@" </dev/null 3<&- &
pooler=$!
( read -r _ <&3; kill "$pooler" ) &
exec 3<&-
wait "$pooler"
`;

async function launch(program: string, configFile: string): Promise<ChildProcess> {
  const command = [program, ...(isRoot ? ["-u", OTHER_USER] : []), configFile];
  const pooler = spawn("/bin/sh", ["-c", SUPERVISOR, "sh", ...command], {
    stdio: ["pipe", "ignore", "pipe"],
  });
  let log = "";
  const isUp = new Promise<void>((resolve, reject) => {
    pooler.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes("process up")) resolve();
    });
    pooler.once("error", reject);
    pooler.once("close", () => reject(new Error(`PgBouncer did not start:\n${log}`)));
  });
  await isUp;
  return pooler;
}

async function stop(pooler: ChildProcess): Promise<void> {
  const closed = once(pooler, "close");
  pooler.stdin?.end();
  await closed;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}
