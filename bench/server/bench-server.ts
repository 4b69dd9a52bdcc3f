import { randomBytes } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import { startEmbeddedServer } from "../../src/embedded/server.ts";
import { openDatabase } from "../../src/index.ts";

/** The widest that anything here is measured at. */
export const MAX_CONNECTIONS = 32;

const TOLD = ["fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers"] as const;

/** All are PostgreSQL's defaults except this one: several pools are open at once. */
const SETTINGS = { max_connections: "200" };

/** The one PostgreSQL server that everybody uses. */
export interface BenchServer extends AsyncDisposable {
  readonly version: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly postmasterPid: number;
  /** Of a role that row-level security binds, for this package. */
  readonly applicationUrl: string;
  /** Of the role that owns the tables, and of one that reads the ledger of all tenants. */
  readonly ownerUrl: string;
  readonly analystUrl: string;
  /** Databases of their own for the others, each with a role that owns it. */
  readonly langGraphUrl: string;
  readonly emmettUrl: string;
  /** As a superuser. */
  query<TRow extends pg.QueryResultRow>(sql: string, parameters?: unknown[]): Promise<TRow[]>;
}

export async function startBenchServer(directory: string): Promise<BenchServer> {
  const { connectionString, stop } = await startEmbeddedServer({
    dataDir: join(directory, "postgres"),
    settings: SETTINGS,
  });
  const admin = new pg.Client({ connectionString });
  admin.on("error", () => {}); // it may outlive the server
  try {
    await admin.connect();
    const applicationUrl = await createRole(admin, connectionString, "bench_application");
    const analystUrl = await createRole(admin, connectionString, "bench_analyst");
    await migrate(connectionString);
    const { settings, version } = await readSettings(admin);
    return {
      version,
      settings,
      postmasterPid: await readPostmasterPid(admin),
      applicationUrl,
      ownerUrl: connectionString,
      analystUrl,
      langGraphUrl: await createDatabase(admin, connectionString, "bench_langgraph"),
      emmettUrl: await createDatabase(admin, connectionString, "bench_emmett"),
      query: async <TRow extends pg.QueryResultRow>(sql: string, parameters: unknown[] = []) =>
        (await admin.query<TRow>(sql, parameters)).rows,
      async [Symbol.asyncDispose]() {
        await admin.end();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function migrate(connectionString: string): Promise<void> {
  const database = await openDatabase({ connectionString });
  try {
    await database.migrate({ applicationRoles: ["bench_application"], analystRoles: ["bench_analyst"] });
  } finally {
    await database.close();
  }
}

async function createRole(admin: pg.Client, connectionString: string, role: string): Promise<string> {
  const password = randomBytes(12).toString("hex");
  await admin.query(`create role ${role} login password '${password}'`);
  const url = new URL(connectionString);
  url.username = role;
  url.password = password;
  return url.href;
}

async function createDatabase(admin: pg.Client, connectionString: string, name: string): Promise<string> {
  const url = new URL(await createRole(admin, connectionString, name));
  await admin.query(`create database ${name} owner ${name}`);
  url.pathname = `/${name}`;
  return url.href;
}

async function readSettings(admin: pg.Client) {
  const { rows } = await admin.query<{ name: string; setting: string }>(
    "select name, current_setting(name) as setting from pg_settings where name = any($1)",
    [[...TOLD, "server_version"]],
  );
  const { server_version: version = "", ...settings } = Object.fromEntries(
    rows.map(({ name, setting }) => [name, setting]),
  );
  return { version, settings };
}

async function readPostmasterPid(admin: pg.Client): Promise<number> {
  const { rows } = await admin.query<{ file: string }>("select pg_read_file('postmaster.pid') as file");
  return Number.parseInt(rows[0]?.file ?? "", 10);
}
