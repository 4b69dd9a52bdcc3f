import { sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import {
  DatabaseNotMigratedError,
  DatabaseTooNewError,
  TenantExistsError,
  TenantNotFoundError,
} from "./errors.ts";
import { migrationStatus } from "./migrations.ts";
import { onSnapshot, read, type Tables } from "./transaction.ts";

/** The tenant that every migrated schema has. */
export const DEFAULT_TENANT = "default";

/** @throws InvalidTextError, TenantExistsError */
export async function createTenant(tables: Tables, slug: string): Promise<void> {
  assertSlug(slug);
  const created = await onSnapshot(tables, BACKGROUND_CONTEXT, (trx) =>
    trx
      .insertInto("tenants")
      .values({ slug })
      .onConflict((conflict) => conflict.column("slug").doNothing())
      .returning("tenant_id")
      .executeTakeFirst(),
  );
  if (created === undefined) throw new TenantExistsError(slug);
}

/**
 * The tenant's id, from a schema that this version can work with.
 *
 * @throws TenantNotFoundError, DatabaseNotMigratedError, DatabaseTooNewError
 */
export async function findTenant(tables: Tables, slug: string): Promise<string> {
  assertSlug(slug);
  const status = await migrationStatus(tables);
  if (status.unknown.length > 0) throw new DatabaseTooNewError(tables.schema, status.unknown);
  if (status.pending.length > 0) throw new DatabaseNotMigratedError(tables.schema);
  const tenant = await read(tables, BACKGROUND_CONTEXT, (db, options) =>
    db
      .selectFrom("tenants")
      .select(sql<string>`tenant_id::text`.as("tenant_id"))
      .where("slug", "=", slug)
      .executeTakeFirst(options),
  );
  if (tenant === undefined) throw new TenantNotFoundError(slug);
  return tenant.tenant_id;
}

function assertSlug(slug: string): void {
  assertText("tenant slug", slug, { maxBytes: TEXT_LIMITS.tenantSlug, empty: false });
}
