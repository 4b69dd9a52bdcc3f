import { Kysely, sql, type Transaction } from "kysely";
import type pg from "pg";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { SchemaDialect, TenantDialect } from "./dialect.ts";
import { UnsupportedServerError } from "./errors.ts";
import { typedFailure } from "./failure.ts";
import { findTenant } from "./find-tenant.ts";
import { checkIsolation, type IsolationCheck } from "./isolation.ts";
import { type MigrationStatus, migrate, migrationStatus } from "./migrations.ts";
import { OpenSessions } from "./open-sessions.ts";
import { createPool, GuardedPool, type PreparedStatements } from "./pool.ts";
import { PgSessionRepo } from "./repo.ts";
import type { MigrationRoles } from "./roles.ts";
import type { DB } from "./schema.generated.ts";
import { assertSchemaName, DEFAULT_SCHEMA } from "./schema-name.ts";
import { SchemaVersion } from "./schema-version.ts";
import { tenantSetting } from "./tenant-setting.ts";
import { Tenants } from "./tenants.ts";
import { assertTimeouts, type Timeouts, timeoutSettings } from "./timeouts.ts";
import { read, type Tables } from "./transaction.ts";
import { Usage } from "./usage.ts";

/** Where the tables are, and how to use the connections. */
export interface DatabaseOptions {
  /** Name of the schema that holds the tables: up to 63 letters, digits and underscores. Default `pi_sessions`. */
  schema?: string;
  /**
   * Name of these connections in the server's activity view. Default `pi-session-postgres`. Ignored with your own
   * pool.
   */
  applicationName?: string;
  /**
   * Whether the server plans each statement once per connection, which makes commits several times faster. Default
   * `auto`: until a pooler turns out not to keep prepared statements, as PgBouncer in transaction mode does before
   * version 1.21 or without `max_prepared_statements`.
   */
  preparedStatements?: PreparedStatements;
  /**
   * Limits of every operation but `migrate` and `migrationStatus`; `withTimeouts` replaces them for single calls that
   * take a context. In `withTenant`, `statementMs` and `lockMs` hold for each statement.
   */
  timeouts?: Timeouts;
}

/** {@link DatabaseOptions}, and either a connection string or your own pool. `close` does not end your own pool. */
export type OpenDatabaseOptions = DatabaseOptions & ({ connectionString: string } | { pool: pg.Pool });

const OLDEST_SERVER = 150_000;

/**
 * Connects to a server, PostgreSQL 15 or newer. Creates nothing: that is what `db.migrate()` is for.
 *
 * @param options a connection string or a `pg.Pool`, and where to find the tables
 * @throws DatabaseUnreachableError, UnsupportedServerError, InvalidSchemaNameError, InvalidOptionError
 * @example
 * const db = await openDatabase({ connectionString: "postgresql://localhost/agents" });
 * await db.migrate();
 * const repo = await db.repo("default");
 */
export async function openDatabase(options: OpenDatabaseOptions | pg.Pool): Promise<Database> {
  const { schema = DEFAULT_SCHEMA, applicationName = "pi-session-postgres", ...server } = asOptions(options);
  const { preparedStatements = "auto" } = server;
  const { timeouts = {} } = server;
  assertPreparedStatements(preparedStatements);
  assertTimeouts(timeouts);
  assertSchemaName(schema);
  const pool =
    "pool" in server
      ? new GuardedPool(server.pool, { owned: false, preparedStatements })
      : new GuardedPool(createPool({ connectionString: server.connectionString, applicationName }), {
          owned: true,
          preparedStatements,
        });
  const db = new Kysely<DB>({ dialect: new SchemaDialect(pool, schema) });
  const tables = { db: db.withSchema(schema), schema, pool, timeouts };
  const database = new Database(tables);
  try {
    // A wrong address should be reported at once.
    await assertServer({ ...tables, timeouts: { ...timeouts, reconnectMs: 0 } });
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/**
 * Sessions of agents in one schema of a PostgreSQL database. Get one from {@link openDatabase}.
 *
 * Besides the errors that a method names, any call of it, of its tenants, repositories and sessions may reject with
 * DatabaseClosedError, DatabaseUnreachableError, DatabaseConnectionLostError, DatabaseNotMigratedError,
 * DatabaseTooNewError, DatabasePermissionError, OperationTimeoutError, PreparedStatementLostError or StoredDataError; a call that writes
 * also with TenantNotFoundError (the tenant was deleted), DatabaseFullError, DatabaseLimitError,
 * CommitContentionError or CommitOutcomeUnknownError.
 */
export class Database {
  /** Name of the schema that holds the tables. */
  readonly schema: string;
  /** Administers the tenants, the customers whose sessions are stored here. */
  readonly tenants: Tenants;
  /** What was spent, by whom and on what. */
  readonly usage: Usage;
  readonly #tables: Tables;
  readonly #sessions = new OpenSessions();
  readonly #version: SchemaVersion;

  /** @internal Use {@link openDatabase}. */
  constructor(tables: Tables) {
    this.#tables = tables;
    this.schema = tables.schema;
    this.#version = new SchemaVersion(tables);
    this.tenants = new Tenants(tables, this.#sessions, this.#version);
    this.usage = new Usage(tables, this.#sessions, this.#version);
  }

  /**
   * Creates or updates the tables, in one transaction; safe in any number of processes at once. The role that
   * migrates owns the tables; programs should connect as another one, which is named here once.
   *
   * @returns names of the migrations that were applied, none if the schema was up to date
   * @throws DatabaseTooNewError, MigrationLockedError, DatabasePermissionError, RoleNotFoundError, InvalidOptionError
   * @example
   * await owner.migrate({ applicationRoles: ["agents_app"], analystRoles: ["agents_bi"] });
   */
  async migrate(roles: MigrationRoles = {}): Promise<string[]> {
    return this.#sessions.run(() => migrate(this.#tables, roles));
  }

  /** Version of the server, for example `18.1`. */
  async serverVersion(): Promise<string> {
    return this.#sessions.run(async () => (await readServer(this.#tables)).version);
  }

  /** Which migrations the schema has and lacks. Creates nothing, and works before the first migration. */
  async migrationStatus(): Promise<MigrationStatus> {
    return this.#sessions.run(() => migrationStatus(this.#tables));
  }

  /**
   * The sessions of a tenant, by its slug. A new schema has the tenant `default`. Repositories of one tenant are
   * independent of each other.
   *
   * @throws InvalidTextError, TenantNotFoundError, TenantBeingDeletedError, DatabaseNotMigratedError,
   *   DatabaseTooNewError
   */
  async repo(tenant: string): Promise<PgSessionRepo> {
    const { tenantId, slug } = await this.#sessions.run(() => findTenant(this.#tables, tenant));
    this.#version.remember();
    return new PgSessionRepo({ ...this.#tables, tenant: { tenantId, slug } }, tenantId, this.#sessions);
  }

  /**
   * Runs your own queries in one transaction that row-level security holds to the tenant: on this schema's tables,
   * and on your own tables whose policies read the setting `pi_sessions.tenant`. The transaction is read-only for a
   * suspended tenant, commits when the callback returns and rolls back when it throws. Its isolation level is the
   * server's default (READ COMMITTED, unless configured otherwise), and the database's timeouts hold in it; it is not
   * retried and cannot be aborted.
   *
   * @returns what the callback returns
   * @throws InvalidTextError, TenantNotFoundError, TenantBeingDeletedError, DatabaseNotMigratedError,
   *   DatabaseTooNewError, and what the callback throws
   * @example
   * const messages = await db.withTenant("acme", (kysely) =>
   *   kysely.selectFrom("entries").select("entry_id").where("type", "=", "message").execute(),
   * );
   */
  withTenant<T, TTables = DB>(
    tenant: string,
    work: (kysely: Transaction<TTables>) => Promise<T>,
  ): Promise<T> {
    return this.#sessions.run(async () => {
      const found = await findTenant(this.#tables, tenant);
      const settings = [tenantSetting(found.tenantId), ...timeoutSettings(this.#tables.timeouts)];
      const dialect = new TenantDialect(this.#tables.pool, this.schema, settings);
      const kysely = new Kysely<TTables>({ dialect }).withSchema(this.schema);
      try {
        return await kysely
          .transaction()
          .setAccessMode(found.isSuspended ? "read only" : "read write")
          .execute(work);
      } catch (error) {
        throw typedFailure(error, { schema: this.schema, tenant: found });
      }
    });
  }

  /**
   * Finds out by trying, and without leaving anything behind, whether row-level security binds the role that is
   * connected here. It does not bind superusers, and the role that owns the tables could switch it off.
   *
   * @throws InvalidTextError, TenantNotFoundError, TenantBeingDeletedError, DatabaseNotMigratedError,
   *   DatabaseTooNewError, DatabasePermissionError when the role may not write
   */
  checkIsolation(tenant: string): Promise<IsolationCheck> {
    return this.#sessions.run(() => checkIsolation(this.#tables, tenant));
  }

  /**
   * Admits nothing more, waits for what runs, and closes all sessions that were opened here; then the connections,
   * unless the pool is your own. Closing again waits for the same end.
   */
  close(): Promise<void> {
    return this.#sessions.close(BACKGROUND_CONTEXT, () => this.#tables.pool.end());
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
  const [server] = await read(
    tables,
    BACKGROUND_CONTEXT,
    () => sql<{ number: number; version: string }>`
      select current_setting('server_version_num')::int as number, current_setting('server_version') as version`,
  );
  return server ?? { number: 0, version: "of an unknown version" };
}

/** @throws InvalidOptionError */
function assertPreparedStatements(option: PreparedStatements): void {
  if (![true, false, "auto"].includes(option)) {
    throw new InvalidOptionError("preparedStatements", option, "pass true, false or auto");
  }
}
