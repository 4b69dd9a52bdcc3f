import { readdir, readFile } from "node:fs/promises";
import { type Kysely, sql, type Transaction } from "kysely";
import { type Migration, type MigrationProvider, Migrator } from "kysely/migration";
import { DatabaseTooNewError, MigrationLockedError } from "./errors.ts";
import { isLockTimeout, typedFailure } from "./failure.ts";
import { assertRoles, grantToRoles, type MigrationRoles, printGrants } from "./roles.ts";
import type { DB } from "./schema.generated.ts";
import { SAFE_SEARCH_PATH, type Tables } from "./transaction.ts";

/** Which migrations a schema has and lacks. */
export interface MigrationStatus {
  /** Names of the migrations that the schema has, in order. */
  applied: string[];
  /** Names of the migrations that `migrate()` would apply, in order. */
  pending: string[];
  /**
   * Names of migrations that the schema has and this release does not know; if there are any, this release refuses to
   * work with it.
   */
  unknown: string[];
}

const SQL_DIRECTORY = new URL("../../sql/", import.meta.url);
export const MIGRATION_TABLE = "kysely_migration";
const LOCK_TABLE = "kysely_migration_lock";
/** Waiting for other migrating processes is normal; waiting for a table lock stalls everybody who comes after. */
const WAIT_FOR_PEERS_MS = 120_000;
const WAIT_FOR_TABLES_MS = 10_000;

/**
 * Applies all pending migrations in one transaction. Any number of processes may do so at once.
 *
 * Roles keep what was granted to them; after a migration the grants are renewed, since tables may be new.
 *
 * @returns names of the migrations that were applied
 * @throws DatabaseTooNewError, MigrationLockedError, DatabasePermissionError, RoleNotFoundError,
 *   InvalidOptionError
 */
export async function migrate(tables: Tables, roles: MigrationRoles): Promise<string[]> {
  assertRoles(roles);
  try {
    return await tables.db.transaction().execute((trx) => migrateLocked(trx, tables.schema, roles));
  } catch (error) {
    if (isLockTimeout(error)) throw new MigrationLockedError(tables.schema, { cause: error });
    throw typedFailure(error, tables);
  }
}

async function migrateLocked(trx: Transaction<DB>, schema: string, roles: MigrationRoles): Promise<string[]> {
  await sql.raw(SAFE_SEARCH_PATH).execute(trx);
  await setLockTimeout(trx, WAIT_FOR_PEERS_MS);
  await sql`select pg_advisory_xact_lock(hashtextextended(${`pi-session-postgres ${schema}`}, 0))`.execute(
    trx,
  );
  await setLockTimeout(trx, WAIT_FOR_TABLES_MS);
  const { unknown } = await migrationStatus({ db: trx, schema });
  if (unknown.length > 0) throw new DatabaseTooNewError(schema, unknown);
  await createSchema(trx, schema);
  const migrator = new Migrator({
    db: trx,
    provider: new SqlFiles(schema),
    migrationTableSchema: schema,
    migrationTableName: MIGRATION_TABLE,
    migrationLockTableName: LOCK_TABLE,
    nameComparator: byName,
  });
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error !== undefined) throw error;
  const namesRoles = (roles.applicationRoles ?? []).length + (roles.analystRoles ?? []).length > 0;
  if (results.length > 0 || namesRoles) await grantToRoles(trx, schema, roles);
  return results.map((result) => result.migrationName);
}

/** The migrator would look again after a refusal, in a transaction that is over by then. */
async function createSchema(trx: Transaction<DB>, schema: string): Promise<void> {
  const schemas = await trx.introspection.getSchemas();
  if (schemas.length === 0) await trx.schema.createSchema(schema).execute();
}

/** Reads which migrations the schema has. Creates nothing. */
export async function migrationStatus({
  db,
  schema,
}: Pick<Tables, "db" | "schema">): Promise<MigrationStatus> {
  const known = await knownMigrations();
  try {
    const applied = await appliedMigrations(db, schema);
    return {
      applied,
      pending: known.filter((name) => !applied.includes(name)),
      unknown: applied.filter((name) => !known.includes(name)),
    };
  } catch (error) {
    throw typedFailure(error, { schema });
  }
}

/** Names of the migrations that this version brings, in order. */
export async function knownMigrations(): Promise<string[]> {
  files ??= readFiles();
  return (await files).map(({ name }) => name);
}

async function appliedMigrations(db: Kysely<DB>, schema: string): Promise<string[]> {
  const table = sql.table(`${schema}.${MIGRATION_TABLE}`);
  const tables = await db.introspection.getTables();
  if (!tables.some(({ name }) => name === MIGRATION_TABLE)) return [];
  const applied = await sql<{ name: string }>`select name from ${table} order by name collate "C"`.execute(
    db,
  );
  return applied.rows.map(({ name }) => name);
}

/**
 * The SQL of all migrations as one script, for people whose administrator runs it. It ends with what
 * {@link migrate} would have noted, so both ways can follow each other.
 */
export async function printMigrations(schema: string, roles: MigrationRoles = {}): Promise<string> {
  assertRoles(roles);
  const migrations = await readMigrations(schema);
  const table = `"${schema}".${MIGRATION_TABLE}`;
  const lock = `"${schema}".${LOCK_TABLE}`;
  const notes = migrations.map(
    ({ name }, index) =>
      `insert into ${table} (name, timestamp) values ('${name}', ` +
      `to_char(now() at time zone 'utc' + interval '${index} milliseconds', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));`,
  );
  return [
    "begin;",
    `${SAFE_SEARCH_PATH};`,
    `set local lock_timeout = '${WAIT_FOR_TABLES_MS}ms';`,
    `create schema if not exists "${schema}";`,
    `create table ${table} (name varchar(255) not null primary key, timestamp varchar(255) not null);`,
    `create table ${lock} (id varchar(255) not null primary key, is_locked integer not null default 0);`,
    `insert into ${lock} (id, is_locked) values ('migration_lock', 0);`,
    "",
    ...migrations.map(({ name, text }) => `-- ${name}\n\n${text}`),
    ...notes,
    "",
    await printGrants(schema, roles),
    "commit;",
    "",
  ].join("\n");
}

async function setLockTimeout(trx: Transaction<DB>, milliseconds: number): Promise<void> {
  await sql`select set_config('lock_timeout', ${`${milliseconds}ms`}, true)`.execute(trx);
}

class SqlFiles implements MigrationProvider {
  readonly #schema: string;

  constructor(schema: string) {
    this.#schema = schema;
  }

  async getMigrations(): Promise<Record<string, Migration>> {
    const migrations = await readMigrations(this.#schema);
    return Object.fromEntries(
      migrations.map(({ name, text }): [string, Migration] => [
        name,
        { up: async (db) => void (await sql.raw(text).execute(db)) },
      ]),
    );
  }
}

interface MigrationFile {
  name: string;
  text: string;
}

let files: Promise<MigrationFile[]> | undefined;

async function readMigrations(schema: string): Promise<MigrationFile[]> {
  files ??= readFiles();
  return (await files).map(({ name, text }) => ({ name, text: text.replaceAll("{schema}", `"${schema}"`) }));
}

async function readFiles(): Promise<MigrationFile[]> {
  const names = (await readdir(SQL_DIRECTORY)).filter((file) => file.endsWith(".sql")).sort(byName);
  return Promise.all(
    names.map(async (file) => {
      const text = await readFile(new URL(file, SQL_DIRECTORY), "utf8");
      return { name: file.slice(0, -".sql".length), text };
    }),
  );
}

function byName(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
