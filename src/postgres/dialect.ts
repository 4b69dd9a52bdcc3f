import {
  CompiledQuery,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresDialect,
  PostgresDriver,
  type PostgresPool,
  type SchemaMetadata,
  sql,
  type TableMetadata,
  type TransactionSettings,
} from "kysely";

/** Kysely's dialect, except for what its migrator asks of it. */
export class SchemaDialect extends PostgresDialect {
  readonly #schema: string;

  constructor(pool: PostgresPool, schema: string) {
    super({ pool });
    this.#schema = schema;
  }

  override createAdapter(): PostgresAdapter {
    return new UnlockedAdapter();
  }

  override createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new SchemaIntrospector(db, this.#schema);
  }
}

/** Every transaction names the tenant, in the round trip that begins it. */
export class TenantDialect extends SchemaDialect {
  readonly #pool: PostgresPool;
  readonly #settings: readonly string[];

  /** @param settings statements that hold for each transaction */
  constructor(pool: PostgresPool, schema: string, settings: readonly string[]) {
    super(pool, schema);
    this.#pool = pool;
    this.#settings = settings;
  }

  override createDriver(): Driver {
    return new TenantDriver(this.#pool, this.#settings);
  }
}

class TenantDriver extends PostgresDriver {
  readonly #settings: readonly string[];

  constructor(pool: PostgresPool, settings: readonly string[]) {
    super({ pool });
    this.#settings = settings;
  }

  override async beginTransaction(
    connection: DatabaseConnection,
    { accessMode = "read write" }: TransactionSettings,
  ): Promise<void> {
    await connection.executeQuery(
      CompiledQuery.raw([`start transaction ${accessMode}`, ...this.#settings].join("; ")),
    );
  }
}

/** `migrate` takes a lock of its own at the start of its transaction, before anything can be created twice. */
class UnlockedAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

/**
 * Says which tables one schema has. Kysely's own looks at every table of the database, and fails when one of
 * them is dropped while it looks.
 */
class SchemaIntrospector implements DatabaseIntrospector {
  readonly #db: Kysely<unknown>;
  readonly #schema: string;

  constructor(db: Kysely<unknown>, schema: string) {
    this.#db = db;
    this.#schema = schema;
  }

  async getSchemas(): Promise<SchemaMetadata[]> {
    const { rows } = await sql<SchemaMetadata>`
      select nspname as name from pg_catalog.pg_namespace where nspname = ${this.#schema}`.execute(this.#db);
    return rows;
  }

  async getTables(): Promise<TableMetadata[]> {
    const { rows } = await sql<{ name: string }>`
      select c.relname as name
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      where n.nspname = ${this.#schema} and c.relkind in ('r', 'p')`.execute(this.#db);
    return rows.map(({ name }) => ({
      name,
      schema: this.#schema,
      isView: false,
      isForeign: false,
      columns: [],
    }));
  }
}
