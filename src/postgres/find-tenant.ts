import { sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import {
  DatabaseNotMigratedError,
  DatabaseTooNewError,
  TenantBeingDeletedError,
  TenantNotFoundError,
} from "./errors.ts";
import { knownMigrations, MIGRATION_TABLE } from "./migrations.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import { read, type Tables } from "./transaction.ts";

/** The tenant that every migrated schema has at first. */
export const DEFAULT_TENANT = "default";

/** A tenant, in a schema that this version can work with, and whether it can be written. */
export interface FoundTenant extends Tenant {
  readonly isSuspended: boolean;
}

/**
 * Looks both up in one round trip.
 *
 * @throws InvalidTextError, TenantNotFoundError, TenantBeingDeletedError, DatabaseNotMigratedError,
 *   DatabaseTooNewError
 */
export async function findTenant(tables: Tables, slug: string): Promise<FoundTenant> {
  const tenant = tenantOf(slug);
  const [found] = await read({ ...tables, tenant }, BACKGROUND_CONTEXT, (db) =>
    db
      .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
      .leftJoin("tenants as t", (join) => join.on("t.tenant_id", "=", tenant.tenantId))
      .select(["t.tenant_id", "t.suspended_at", "t.deleting"])
      .select(
        sql<string | null>`(
          select string_agg(name, ',' order by name collate "C") from ${sql.id(tables.schema, MIGRATION_TABLE)})`.as(
          "applied",
        ),
      ),
  );
  const applied = found?.applied?.split(",") ?? [];
  const known = await knownMigrations();
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new DatabaseTooNewError(tables.schema, unknown);
  if (known.some((name) => !applied.includes(name))) throw new DatabaseNotMigratedError(tables.schema);
  if (found === undefined || found.tenant_id === null) throw new TenantNotFoundError(slug);
  if (found.deleting === true) throw new TenantBeingDeletedError(slug);
  return { ...tenant, isSuspended: found.suspended_at !== null };
}
