import { type RawBuilder, sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { DatabaseNotMigratedError, DatabaseTooNewError } from "./errors.ts";
import { knownMigrations, MIGRATION_TABLE } from "./migrations.ts";
import { read, type Tables } from "./transaction.ts";

/** The names of the migrations that the schema has, with commas between them. */
export function appliedColumn({ schema }: Pick<Tables, "schema">): RawBuilder<string | null> {
  return sql<string | null>`(
    select string_agg(name, ',' order by name collate "C") from ${sql.id(schema, MIGRATION_TABLE)})`;
}

/**
 * That this release can work with a schema that has these migrations.
 *
 * @throws DatabaseNotMigratedError, DatabaseTooNewError
 */
export async function assertVersion(schema: string, appliedNames: string | null | undefined): Promise<void> {
  const applied = appliedNames?.split(",") ?? [];
  const known = await knownMigrations();
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new DatabaseTooNewError(schema, unknown);
  if (known.some((name) => !applied.includes(name))) throw new DatabaseNotMigratedError(schema);
}

/** Whether the schema is one that this release can work with: looked up before the first operation, then remembered. */
export class SchemaVersion {
  readonly #tables: Tables;
  #isConfirmed = false;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  /** @throws DatabaseNotMigratedError, DatabaseTooNewError */
  async confirm(): Promise<void> {
    if (this.#isConfirmed) return;
    const [found] = await read(
      this.#tables,
      BACKGROUND_CONTEXT,
      () => sql<{ applied: string | null }>`select ${appliedColumn(this.#tables)} as applied`,
    );
    await assertVersion(this.#tables.schema, found?.applied);
    this.remember();
  }

  /** For somebody who has looked while looking for something else. */
  remember(): void {
    this.#isConfirmed = true;
  }
}
