import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, Pool } from "pg";
import { inject } from "vitest";
import { startEmbeddedServer } from "../../src/embedded/server.ts";
import { type Database, openDatabase } from "../../src/postgres/database.ts";

export interface TestDatabaseOptions {
  /** False leaves the database as it is before the first `migrate()`. Default true. */
  readonly migrated?: boolean;
  /** Default: a new unique name. */
  readonly schema?: string;
  readonly applicationName?: string;
  /** On an embedded server of its own, where no transaction of another test holds anything up. Default false. */
  readonly isAlone?: boolean;
}

/** A database in a schema of its own on the server that all tests share; gone when disposed. */
export interface TestDatabase extends AsyncDisposable {
  /** Connects as the application role, which row-level security binds; before the first `migrate()` as the owner. */
  readonly database: Database;
  /** The same connection for other programs. */
  readonly connectionString: string;
  readonly schema: string;
  /** Connects as the role that owns the tables, a superuser. */
  readonly owner: Database;
  readonly ownerConnectionString: string;
  readonly applicationRole: string;
  /** Superuser connections beside the database, for looking at rows and for breaking things. */
  readonly admin: Pool;
}

/**
 * @example
 * await using test = await openTestDatabase();
 * const repo = await test.database.repo("default");
 */
export async function openTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { schema = `test_${randomBytes(8).toString("hex")}`, migrated = true, applicationName } = options;
  const { role, password } = inject("application");
  const server = options.isAlone === true ? await startServer(role, password) : undefined;
  const ownerConnectionString = server?.connectionString ?? inject("connectionString");
  const connectionString = migrated ? withUser(ownerConnectionString, role, password) : ownerConnectionString;
  const name = applicationName === undefined ? {} : { applicationName };
  const owner = await openDatabase({ connectionString: ownerConnectionString, schema, ...name });
  const admin = new Pool({ connectionString: ownerConnectionString, max: 2 });
  admin.on("error", () => {}); // tests that end connections end this one too
  const disposals = [
    ...(server === undefined ? [] : [() => server.stop()]),
    () => admin.end(),
    () => admin.query(`drop schema if exists "${schema.replaceAll('"', '""')}" cascade`),
    () => owner.close(),
  ];
  const dispose = async () => {
    for (const disposal of disposals.reverse()) await disposal();
  };
  try {
    if (migrated) await owner.migrate({ applicationRoles: [role] });
    const database = await openDatabase({ connectionString, schema, ...name });
    disposals.push(() => database.close());
    return {
      database,
      connectionString,
      schema,
      owner,
      ownerConnectionString,
      applicationRole: role,
      admin,
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

interface OwnServer {
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** With the application role that the shared server has. */
async function startServer(role: string, password: string): Promise<OwnServer> {
  const directory = await mkdtemp(join(tmpdir(), "pi-sessions-test-"));
  const { connectionString, stop } = await startEmbeddedServer({
    dataDir: join(directory, "data"),
    settings: { fsync: "off", synchronous_commit: "off", full_page_writes: "off" },
    initdbFlags: ["--no-sync"],
  });
  const client = new Client({ connectionString });
  await client.connect();
  await client.query(`create role ${role} login password '${password}'`);
  await client.end();
  return {
    connectionString,
    async stop() {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function withUser(connectionString: string, user: string, password: string): string {
  const url = new URL(connectionString);
  url.username = user;
  url.password = password;
  return url.href;
}
