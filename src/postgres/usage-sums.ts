import { type RawBuilder, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { SessionKey } from "./session-key.ts";
import type { Tenant } from "./tenant-id.ts";
import { type Tables, write } from "./transaction.ts";

/** The sums of the ledger by hour, day and month. Their functions are in sql/0010_rollups.sql and sql/0014_faster_rollups.sql. */

/** Adds what is new in a tenant's ledger to its sums. @returns the number of rows that were added */
export function rollUpUsage(tables: Tables, { tenantId }: Tenant, context: Context): Promise<number> {
  return countOf(tables, sql`${sql.id(tables.schema, "roll_up_usage")}(${tenantId})`, context);
}

/** Makes a tenant's sums anew. @returns the number of rows that are in them */
export function rebuildUsage(
  tables: Tables,
  { tenantId }: Pick<Tenant, "tenantId">,
  context: Context,
): Promise<number> {
  return countOf(tables, sql`${sql.id(tables.schema, "rebuild_usage")}(${tenantId})`, context);
}

async function countOf(tables: Tables, call: RawBuilder<unknown>, context: Context): Promise<number> {
  const statement = () => sql<{ rows: number }>`select ${call} as rows`;
  const [row] = await write(tables, context, statement, { isRepeatable: true });
  return row?.rows ?? 0;
}

/** Before a session is deleted: takes what it spent out of the sums. */
export function forgetUsage({ schema }: Tables, { tenantId, sessionId }: SessionKey): RawBuilder<unknown> {
  return sql`select ${sql.id(schema, "forget_usage")}(${tenantId}, ${sessionId})`;
}
