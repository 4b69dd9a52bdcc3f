import { randomBytes } from "node:crypto";
import { Pool } from "pg";
import { inject } from "vitest";
import { type Database, openDatabase } from "../../src/postgres/database.ts";

export interface TestDatabaseOptions {
  /** False leaves the database as it is before the first `migrate()`. Default true. */
  readonly migrated?: boolean;
  /** Default: a new unique name. */
  readonly schema?: string;
  readonly applicationName?: string;
}

/** A database in a schema of its own on the server that all tests share; gone when disposed. */
export interface TestDatabase extends AsyncDisposable {
  readonly database: Database;
  readonly connectionString: string;
  readonly schema: string;
  /** Superuser connections beside the database, for looking at rows and for breaking things. */
  readonly admin: Pool;
}

/**
 * @example
 * await using test = await openTestDatabase();
 * const repo = await test.database.repo("default");
 */
export async function openTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const connectionString = inject("connectionString");
  const schema = options.schema ?? `test_${randomBytes(8).toString("hex")}`;
  const { applicationName } = options;
  const database = await openDatabase({
    connectionString,
    schema,
    ...(applicationName === undefined ? {} : { applicationName }),
  });
  const admin = new Pool({ connectionString, max: 2 });
  admin.on("error", () => {}); // tests that end connections end this one too
  const test: TestDatabase = {
    database,
    connectionString,
    schema,
    admin,
    [Symbol.asyncDispose]: async () => {
      await database.close();
      await admin.query(`drop schema if exists "${schema.replaceAll('"', '""')}" cascade`);
      await admin.end();
    },
  };
  if (options.migrated === false) return test;
  try {
    await database.migrate();
    return test;
  } catch (error) {
    await test[Symbol.asyncDispose]();
    throw error;
  }
}
