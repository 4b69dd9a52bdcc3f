import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { DB } from "./schema.generated.ts";
import { assertWritable } from "./tenant-limits.ts";
import { read, readCommitted, type Tables } from "./transaction.ts";
import type { Fault } from "./verify-session.ts";

/**
 * Whether what is counted for a tenant with limits is what it has. Bytes may be counted too many, until the limit is
 * reached, where they are counted anew; and they are counted only while they are limited.
 */
export async function examineTenant(tables: Tables, tenantId: string, context: Context): Promise<Fault[]> {
  const [row] = await read(tables, context, (db) => countsStatement(db, tenantId));
  if (row === undefined || (row.max_sessions === null && row.max_stored_bytes === null)) return [];
  const faults: Fault[] = [];
  if (row.sessions !== row.counted_sessions) {
    const what = `${row.counted_sessions ?? "no"} sessions are counted and there are ${row.sessions}`;
    faults.push({ check: "tenant_sessions", count: 1, what });
  }
  if (row.max_stored_bytes !== null && (row.counted_bytes ?? -1) < row.bytes) {
    const what = `${row.counted_bytes ?? "no"} bytes are counted, and sessions take or reserve ${row.bytes}`;
    faults.push({ check: "tenant_bytes", count: 1, what });
  }
  return faults;
}

function countsStatement(db: Kysely<DB>, tenantId: string) {
  return db
    .selectFrom("tenants as t")
    .leftJoin("tenant_storage as c", (join) => join.on("c.tenant_id", "=", tenantId))
    .select(["t.max_sessions", "t.max_stored_bytes"])
    .select(["c.sessions as counted_sessions", "c.bytes as counted_bytes"])
    .select((eb) => [
      eb
        .selectFrom("sessions")
        .where("tenant_id", "=", tenantId)
        .select(sql<number>`count(*)`.as("sessions"))
        .$asScalar()
        .$notNull()
        .as("sessions"),
      eb
        .selectFrom("sessions")
        .where("tenant_id", "=", tenantId)
        .select(TAKEN_BYTES.as("bytes"))
        .$asScalar()
        .$notNull()
        .as("bytes"),
    ])
    .where("t.tenant_id", "=", tenantId);
}

const TAKEN_BYTES = sql<number>`coalesce(sum(greatest(stored_bytes, reserved_bytes)), 0)::bigint`;

/**
 * Counts a tenant's sessions and bytes anew, if they are counted. Whoever adds a session or reserves bytes waits for
 * the locks, so the second statement sees all that the count must hold.
 *
 * @throws TenantSuspendedError, DatabasePermissionError when the row is gone and the role may not add it
 */
export async function recountTenant(tables: Tables, tenantId: string, context: Context): Promise<void> {
  await readCommitted(tables, context, async (trx) => {
    const { db } = trx;
    const tenant = db
      .selectFrom("tenants")
      .select(["max_sessions", "max_stored_bytes"])
      .where("tenant_id", "=", tenantId)
      .forUpdate();
    const storage = db
      .selectFrom("tenant_storage")
      .select("tenant_id")
      .where("tenant_id", "=", tenantId)
      .forUpdate();
    const [, [limits], [counted]] = await trx.send(assertWritable(tables), tenant, storage);
    if (limits === undefined || (limits.max_sessions === null && limits.max_stored_bytes === null)) return;
    await trx.send(counted === undefined ? insertCounts(db, tenantId) : updateCounts(db, tenantId));
  });
}

function counts(db: Kysely<DB>, tenantId: string) {
  return db
    .selectFrom("sessions")
    .where("tenant_id", "=", tenantId)
    .select([sql<number>`count(*)`.as("sessions"), TAKEN_BYTES.as("bytes")]);
}

function updateCounts(db: Kysely<DB>, tenantId: string) {
  return db
    .updateTable("tenant_storage as c")
    .from(counts(db, tenantId).as("counted"))
    .set((eb) => ({ sessions: eb.ref("counted.sessions"), bytes: eb.ref("counted.bytes") }))
    .where("c.tenant_id", "=", tenantId);
}

function insertCounts(db: Kysely<DB>, tenantId: string) {
  return db
    .insertInto("tenant_storage")
    .columns(["tenant_id", "sessions", "bytes"])
    .expression((eb) =>
      eb
        .selectFrom(counts(db, tenantId).as("counted"))
        .select([sql<string>`${tenantId}::uuid`.as("tenant_id"), "counted.sessions", "counted.bytes"]),
    );
}
