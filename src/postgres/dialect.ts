import {
  type DatabaseIntrospector,
  type Kysely,
  PostgresAdapter,
  PostgresDialect,
  type PostgresPool,
  type SchemaMetadata,
  sql,
  type TableMetadata,
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

/** `migrate` takes a lock of its own at the start of its transaction, before anything can be created twice. */
class UnlockedAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

/**
 * Says which tables one schema has. Kysely's own looks at every table of the database, and fails when one of
 * them is dropped meanwhile.
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
