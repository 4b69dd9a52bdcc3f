import { sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { TenantBeingDeletedError, TenantNotFoundError } from "./errors.ts";
import { appliedColumn, assertVersion } from "./schema-version.ts";
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
      .select(appliedColumn(tables).as("applied")),
  );
  await assertVersion(tables.schema, found?.applied);
  if (found === undefined || found.tenant_id === null) throw new TenantNotFoundError(slug);
  if (found.deleting === true) throw new TenantBeingDeletedError(slug);
  return { ...tenant, isSuspended: found.suspended_at !== null };
}
