import { randomBytes } from "node:crypto";
import { Client, Pool } from "pg";
import { inject } from "vitest";
import { type Database, openDatabase } from "../../src/postgres/database.ts";

export interface TestDatabaseOptions {
  /** False leaves the database as it is before the first `migrate()`. Default true. */
  readonly migrated?: boolean;
  /** Default: a new unique name. */
  readonly schema?: string;
  readonly applicationName?: string;
  /** In a database of its own, where no transaction of another test keeps dead rows alive. Default false. */
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
  const server = inject("connectionString");
  const ownerConnectionString = options.isAlone === true ? await createDatabase(server, schema) : server;
  const { role, password } = inject("application");
  const connectionString = migrated ? withUser(ownerConnectionString, role, password) : ownerConnectionString;
  const name = applicationName === undefined ? {} : { applicationName };
  const owner = await openDatabase({ connectionString: ownerConnectionString, schema, ...name });
  const admin = new Pool({ connectionString: ownerConnectionString, max: 2 });
  admin.on("error", () => {}); // tests that end connections end this one too
  const disposals = [
    ...(options.isAlone === true ? [() => query(server, `drop database "${schema}" with (force)`)] : []),
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

async function createDatabase(server: string, name: string): Promise<string> {
  await query(server, `create database "${name}" template template0`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

async function query(connectionString: string, sql: string): Promise<void> {
  const client = new Client({ connectionString });
  await client.connect();
  await client.query(sql);
  await client.end();
}

function withUser(connectionString: string, user: string, password: string): string {
  const url = new URL(connectionString);
  url.username = user;
  url.password = password;
  return url.href;
}
