import { type Kysely, sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { TenantNotFoundError } from "./errors.ts";
import type { DB } from "./schema.generated.ts";
import type { Tenant } from "./tenant-id.ts";
import { readCommitted, serializable, type Tables, type Transaction } from "./transaction.ts";

/** What a tenant may have at most, as whole numbers from 0. A limit that is left out does not exist. */
export interface TenantLimits {
  /** Number of sessions. */
  sessions?: number;
  /** UTF-8 bytes of the JSON of all payloads, usage rows and current values and lists. */
  storedBytes?: number;
  /** UTF-8 bytes of the JSON of one entry's payload. */
  entryBytes?: number;
}

/** @throws InvalidOptionError */
export function assertLimits(limits: TenantLimits): void {
  for (const [option, maximum] of Object.entries(limits)) {
    if (!["sessions", "storedBytes", "entryBytes"].includes(option)) {
      throw new InvalidOptionError(`limits.${option}`, maximum, "pass sessions, storedBytes or entryBytes");
    }
    if (maximum !== undefined && !(Number.isSafeInteger(maximum) && maximum >= 0)) {
      throw new InvalidOptionError(`limits.${option}`, maximum, "pass a whole number from 0 on");
    }
  }
}

/** Only then are sessions and bytes counted. */
export function isCounted({ sessions, storedBytes }: TenantLimits): boolean {
  return sessions !== undefined || storedBytes !== undefined;
}

export function limitColumns({ sessions, storedBytes, entryBytes }: TenantLimits) {
  return {
    max_sessions: sessions ?? null,
    max_stored_bytes: storedBytes ?? null,
    max_entry_bytes: entryBytes ?? null,
  };
}

/**
 * Replaces the limits. Sessions and bytes are counted only while one of them is limited. So first the counting
 * starts, while nobody can add a session (see `admit_session`). Then the limit is set and the bytes are counted
 * again, in a SERIALIZABLE transaction: it cannot overlap with a commit that has not seen the limit.
 *
 * @throws TenantNotFoundError
 */
export async function setLimits(tables: Tables, tenant: Tenant, limits: TenantLimits): Promise<void> {
  if (isCounted(limits)) {
    const start = (trx: Transaction) => trx.commitWith(lockTenant(trx, tenant), startCounting(trx, tenant));
    await readCommitted(tables, BACKGROUND_CONTEXT, start, { isRepeatable: true });
  }
  const replace = (trx: Transaction) =>
    trx.commitWith(
      updateLimits(trx, tenant, limits),
      dropReservations(trx, tenant),
      isCounted(limits) ? countBytes(trx, tenant) : stopCounting(trx, tenant),
    );
  const [[found]] = await serializable(tables, BACKGROUND_CONTEXT, replace, { isRepeatable: true });
  if (found === undefined) throw new TenantNotFoundError(tenant.slug);
}

function lockTenant({ db }: Transaction, { tenantId }: Tenant) {
  return db.selectFrom("tenants").select("tenant_id").where("tenant_id", "=", tenantId).forUpdate();
}

/** Of a new tenant. */
export function countNothing(db: Kysely<DB>, tenantId: string) {
  return db.insertInto("tenant_storage").values({ tenant_id: tenantId, sessions: 0, bytes: 0 });
}

/** A statement of its own, since what it counts must be newer than the lock. */
function startCounting({ db }: Transaction, { tenantId }: Tenant) {
  return db
    .insertInto("tenant_storage")
    .columns(["tenant_id", "sessions", "bytes"])
    .expression((eb) =>
      eb
        .selectFrom("tenants as t")
        .select("t.tenant_id")
        .select((tenant) => [
          tenant
            .selectFrom("sessions")
            .select(tenant.fn.countAll<number>().as("sessions"))
            .where("tenant_id", "=", tenantId)
            .as("sessions"),
          sql<number>`0`.as("bytes"),
        ])
        .where("t.tenant_id", "=", tenantId),
    )
    .onConflict((conflict) =>
      conflict.column("tenant_id").doUpdateSet((eb) => ({ sessions: eb.ref("excluded.sessions") })),
    );
}

function stopCounting({ db }: Transaction, { tenantId }: Tenant) {
  return db.deleteFrom("tenant_storage").where("tenant_id", "=", tenantId);
}

function updateLimits({ db }: Transaction, { tenantId }: Tenant, limits: TenantLimits) {
  return db
    .updateTable("tenants")
    .set(limitColumns(limits))
    .where("tenant_id", "=", tenantId)
    .returning("tenant_id");
}

function dropReservations({ db }: Transaction, { tenantId }: Tenant) {
  return db
    .updateTable("sessions")
    .set({ reserved_bytes: 0 })
    .where("tenant_id", "=", tenantId)
    .whereRef("reserved_bytes", ">", "stored_bytes");
}

function countBytes({ db }: Transaction, { tenantId }: Tenant) {
  return db
    .updateTable("tenant_storage")
    .set((eb) => ({
      bytes: eb
        .selectFrom("sessions")
        .select(sql<number>`coalesce(sum(stored_bytes), 0)`.as("bytes"))
        .where("tenant_id", "=", tenantId),
    }))
    .where("tenant_id", "=", tenantId);
}
