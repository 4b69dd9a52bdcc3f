import { type RawBuilder, sql } from "kysely";
import type { SessionKey } from "./session-key.ts";
import type { Tables } from "./transaction.ts";

/** Statements to be sent before or after those that write. Their functions are in sql/0002_tenants.sql. */

/** Fails the transaction if the tenant is suspended or gone. */
export function assertWritable(tables: Tables): RawBuilder<unknown> {
  return call(tables, "assert_writable", tables.tenant?.tenantId);
}

/** Before a session is added: the same, and counts it against the tenant's limit. */
export function admitSession(tables: Tables): RawBuilder<unknown> {
  return call(tables, "admit_session", tables.tenant?.tenantId);
}

/** After a session was filled by an import or a fork: counts its bytes against the tenant's limit. */
export function chargeSession(tables: Tables, { tenantId, sessionId }: SessionKey): RawBuilder<unknown> {
  return call(tables, "charge_session", tenantId, sessionId);
}

/** Lets a session store `needed` more bytes, unless that would exceed the tenant's limit. */
export function reserveBytes(
  tables: Tables,
  { tenantId, sessionId }: SessionKey,
  needed: number,
): RawBuilder<unknown> {
  return call(tables, "reserve_bytes", tenantId, sessionId, needed);
}

function call({ schema }: Tables, name: string, ...values: unknown[]): RawBuilder<unknown> {
  return sql`select ${sql.id(schema, name)}(${sql.join(values)})`;
}
