import { homedir } from "node:os";
import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { openEmbeddedDatabase } from "../embedded/index.ts";
import { type Database, openDatabase } from "../postgres/database.ts";
import { DEFAULT_TENANT } from "../postgres/find-tenant.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import { DEFAULT_SCHEMA } from "../postgres/schema-name.ts";
import { unlessInterrupted } from "./interruption.ts";

/** Options of every command. */
export interface ConnectionOptions {
  databaseUrl?: string;
  dataDir?: string;
  schema: string;
  tenant: string;
}

export function addConnectionOptions(program: Command): void {
  program
    .option("--database-url <url>", "PostgreSQL server (default: DATABASE_URL, else an embedded server)")
    .option(
      "--data-dir <directory>",
      `use the embedded server with its data in this directory (default: ${defaultDataDir()})`,
    )
    .option("--schema <name>", "schema of the tables", DEFAULT_SCHEMA)
    .option(
      "--tenant <slug>",
      "the tenant to work on (not for `tenant`, `migrate` and `serve`)",
      DEFAULT_TENANT,
    );
}

/** Where the database of a command is, in its order of precedence. */
export type DatabaseSource =
  | { kind: "url"; from: "--database-url" | "DATABASE_URL"; url: string }
  | { kind: "embedded"; dataDir: string };

export function databaseSource(options: ConnectionOptions): DatabaseSource {
  const { databaseUrl, dataDir } = options;
  if (databaseUrl !== undefined && dataDir !== undefined) {
    throw new InvalidArgumentError(
      "--database-url and --data-dir name two databases: leave one of them out.",
    );
  }
  if (databaseUrl !== undefined)
    return { kind: "url", from: "--database-url", url: assertUrl(databaseUrl, "--database-url") };
  if (dataDir !== undefined) return { kind: "embedded", dataDir };
  const url = process.env["DATABASE_URL"];
  if (url !== undefined && url !== "")
    return { kind: "url", from: "DATABASE_URL", url: assertUrl(url, "DATABASE_URL") };
  return { kind: "embedded", dataDir: embeddedDataDir(options) };
}

function assertUrl(url: string, option: string): string {
  if (!/^postgres(ql)?:\/\//.test(url)) {
    throw new InvalidArgumentError(
      `${option} is not the URL of a PostgreSQL server: use the form postgresql://user:password@host:5432/database.`,
    );
  }
  return url;
}

export function embeddedDataDir({ dataDir }: ConnectionOptions): string {
  return dataDir ?? defaultDataDir();
}

/** The database of a command, and how other programs reach it. */
export interface Connection extends AsyncDisposable {
  database: Database;
  connectionString: string;
}

export function connect(options: ConnectionOptions): Promise<Connection> {
  return unlessInterrupted(open(options));
}

async function open(options: ConnectionOptions): Promise<Connection> {
  const source = databaseSource(options);
  const { schema } = options;
  const applicationName = "pi-sessions";
  if (source.kind === "url") {
    const database = await openDatabase({ connectionString: source.url, schema, applicationName });
    return { database, connectionString: source.url, [Symbol.asyncDispose]: () => database.close() };
  }
  const database = await openEmbeddedDatabase({ dataDir: source.dataDir, schema, applicationName });
  const { connectionString } = database;
  return { database, connectionString, [Symbol.asyncDispose]: () => database.close() };
}

/** Runs a command on the sessions of its tenant. */
export async function withRepo<T>(
  options: ConnectionOptions,
  work: (repo: PgSessionRepo, connection: Connection) => Promise<T>,
): Promise<T> {
  await using connection = await connect(options);
  return await work(await connection.database.repo(options.tenant), connection);
}

function defaultDataDir(): string {
  return join(userDataDirectory(), "pi-sessions");
}

function userDataDirectory(): string {
  switch (process.platform) {
    case "darwin":
      return join(homedir(), "Library", "Application Support");
    case "win32":
      return process.env["LOCALAPPDATA"] ?? join(homedir(), "AppData", "Local");
    default:
      return process.env["XDG_DATA_HOME"] || join(homedir(), ".local", "share");
  }
}
