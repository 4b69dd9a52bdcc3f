import { Kysely, sql } from "kysely";
import type pg from "pg";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { SchemaDialect } from "./dialect.ts";
import { UnsupportedServerError } from "./errors.ts";
import { type MigrationStatus, migrate, migrationStatus } from "./migrations.ts";
import { OpenSessions } from "./open-sessions.ts";
import { createPool, GuardedPool } from "./pool.ts";
import { PgSessionRepo } from "./repo.ts";
import type { DB } from "./schema.generated.ts";
import { assertSchemaName, DEFAULT_SCHEMA } from "./schema-name.ts";
import { createTenant, findTenant } from "./tenants.ts";
import { read, type Tables } from "./transaction.ts";

export interface DatabaseOptions {
  /** Default `pi_sessions`. */
  schema?: string;
  /** What the server's activity view shows. Default `pi-session-postgres`. Ignored with a pool of yours. */
  applicationName?: string;
  /**
   * Lets the server plan each statement once per connection, which makes commits several times faster. Default
   * true. PgBouncer in transaction mode needs version 1.21 with `max_prepared_statements`, or false here.
   */
  preparedStatements?: boolean;
}

/** A connection string, or a pool of yours, which is never closed here. */
export type OpenDatabaseOptions = DatabaseOptions & ({ connectionString: string } | { pool: pg.Pool });

const OLDEST_SERVER = 150_000;

/**
 * Connects to a server. Creates nothing: that is what `db.migrate()` is for.
 *
 * @param options a connection string, or a `pg.Pool`, and where to find the tables
 * @throws DatabaseUnreachableError, UnsupportedServerError, InvalidSchemaNameError, InvalidOptionError
 * @example
 * const db = await openDatabase({ connectionString: "postgresql://localhost/agents" });
 * await db.migrate();
 * const repo = await db.repo("default");
 */
export async function openDatabase(options: OpenDatabaseOptions | pg.Pool): Promise<Database> {
  const { schema = DEFAULT_SCHEMA, applicationName = "pi-session-postgres", ...server } = asOptions(options);
  const { preparedStatements = true } = server;
  assertSchemaName(schema);
  const pool =
    "pool" in server
      ? new GuardedPool(server.pool, { owned: false, preparedStatements })
      : new GuardedPool(createPool({ connectionString: server.connectionString, applicationName }), {
          owned: true,
          preparedStatements,
        });
  const db = new Kysely<DB>({ dialect: new SchemaDialect(pool, schema) });
  const database = new Database({ db: db.withSchema(schema), schema });
  try {
    await assertServer({ db, schema });
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Sessions of agents in one schema of a PostgreSQL database. */
export class Database {
  readonly schema: string;
  readonly #tables: Tables;
  readonly #sessions = new OpenSessions();

  /** @internal Use {@link openDatabase}. */
  constructor(tables: Tables) {
    this.#tables = tables;
    this.schema = tables.schema;
  }

  /**
   * Creates or updates the tables, in one transaction; safe in any number of processes at once.
   *
   * @returns names of the migrations that were applied, none if the schema was up to date
   * @throws DatabaseTooNewError, MigrationLockedError, DatabasePermissionError
   */
  async migrate(): Promise<string[]> {
    return this.#sessions.run(() => migrate(this.#tables));
  }

  /** For example `18.1`. */
  async serverVersion(): Promise<string> {
    return this.#sessions.run(async () => (await readServer(this.#tables)).version);
  }

  async migrationStatus(): Promise<MigrationStatus> {
    return this.#sessions.run(() => migrationStatus(this.#tables));
  }

  /**
   * The sessions of a tenant. The tenant `default` always exists.
   *
   * @throws TenantNotFoundError, DatabaseNotMigratedError, DatabaseTooNewError
   */
  async repo(tenant: string): Promise<PgSessionRepo> {
    const tenantId = await this.#sessions.run(() => findTenant(this.#tables, tenant));
    return new PgSessionRepo(this.#tables, tenantId, this.#sessions);
  }

  /** @throws TenantExistsError, InvalidTextError */
  async createTenant(slug: string): Promise<void> {
    await this.#sessions.run(() => createTenant(this.#tables, slug));
  }

  /** Closes all sessions that are open here, and the connections unless the pool is yours. */
  close(): Promise<void> {
    return this.#sessions.close(BACKGROUND_CONTEXT, () => this.#tables.db.destroy());
  }
}

function asOptions(options: OpenDatabaseOptions | pg.Pool): OpenDatabaseOptions {
  return "connectionString" in options || "pool" in options ? options : { pool: options };
}

async function assertServer(tables: Tables): Promise<void> {
  const server = await readServer(tables);
  if (server.number < OLDEST_SERVER) throw new UnsupportedServerError(server.version);
}

async function readServer(tables: Tables): Promise<{ number: number; version: string }> {
  const { rows } = await read(tables, BACKGROUND_CONTEXT, (db) =>
    sql<{ number: number; version: string }>`
      select current_setting('server_version_num')::int as number, current_setting('server_version') as version
    `.execute(db),
  );
  return rows[0] ?? { number: 0, version: "of an unknown version" };
}
