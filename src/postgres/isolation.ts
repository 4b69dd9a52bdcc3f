import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { insertSession } from "./create-session.ts";
import { DatabasePermissionError } from "./errors.ts";
import { isRefused } from "./failure.ts";
import { findTenant } from "./find-tenant.ts";
import { keyColumns, type SessionKey } from "./session-key.ts";
import { TENANT_SETTING } from "./tenant-setting.ts";
import { readCommitted, type Tables, type Transaction } from "./transaction.ts";

/** Whether row-level security binds the role that is connected. */
export interface IsolationCheck {
  /** Name of the role. */
  role: string;
  /**
   * As another tenant, and as none, the role could neither see nor write a tenant's rows, and it cannot switch
   * row-level security off.
   */
  isBound: boolean;
  /** Tables whose rows another tenant could see, and `writing` if it could write a row; empty if none. */
  leaks: string[];
  /** Why no policy binds the role, or why it could switch them off; `undefined` if neither is so. */
  reason: "superuser" | "bypasses row-level security" | "owns the tables" | undefined;
}

const TABLES = [
  "tenants",
  "tenant_storage",
  "sessions",
  "session_terms",
  "entries",
  "scalar_values",
  "list_values",
  "usage_ledger",
  "usage_tenants",
  "usage_sums",
  "budgets",
  "archives",
  "archive_journal",
] as const;

/**
 * Tries it: writes a session as the tenant, looks for it and writes to it as somebody else, and takes all of it back.
 *
 * @throws TenantNotFoundError, DatabaseNotMigratedError, DatabasePermissionError when the role may not even write
 */
export async function checkIsolation(tables: Tables, slug: string): Promise<IsolationCheck> {
  const tenant = await findTenant(tables, slug);
  const key = { tenantId: tenant.tenantId, sessionId: `isolation ${randomUUID()}` };
  return readCommitted({ ...tables, tenant }, BACKGROUND_CONTEXT, async (trx) => {
    const [[role]] = await trx.send(roleOf(tables), ...probes(tables, key));
    if (role === undefined) throw new DatabasePermissionError("it cannot read pg_roles");
    const leaks = new Set<string>();
    for (const other of [randomUUID(), ""]) {
      const [, rows] = await trx.send(setTenant(other), visibleTables(tables, key));
      for (const { table } of rows) leaks.add(table);
      if (await mayWrite(trx, key)) leaks.add("writing");
    }
    await trx.rollBack();
    const { reason } = role;
    return {
      role: role.name,
      isBound: leaks.size === 0 && reason === null,
      leaks: [...leaks],
      reason: reason ?? undefined,
    };
  });
}

interface Role {
  name: string;
  reason: "superuser" | "bypasses row-level security" | "owns the tables" | null;
}

function roleOf({ schema }: Tables): RawBuilder<Role> {
  return sql<Role>`
    select r.rolname as name,
      case when r.rolsuper then 'superuser'
        when r.rolbypassrls then 'bypasses row-level security'
        when pg_has_role(c.relowner, 'usage') then 'owns the tables' end as reason
    from pg_roles as r, pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where r.rolname = current_user and n.nspname = ${schema} and c.relname = 'sessions'`;
}

/** A row in each table that a tenant's data are in. */
function probes({ db, schema }: Tables, key: SessionKey) {
  const row = { ...keyColumns(key), seq: 1 };
  const value = { ...row, namespace: "isolation", key: "", value: "0" };
  const spent = { input: 0, output: 0, cache_read: 0, cache_write: 0, total_tokens: 0 };
  const cost = {
    cost_input: "0",
    cost_output: "0",
    cost_cache_read: "0",
    cost_cache_write: "0",
    cost_total: "0",
  };
  return [
    // With metadata, so that there are terms too.
    insertSession(db, key, { id: key.sessionId, createdAt: 0, metadata: { isolation: true } }),
    db.insertInto("entries").values({
      ...row,
      entry_id: "e",
      run: 1,
      timestamp: 0,
      type: "custom",
      payload: "{}",
      payload_bytes: 2,
    }),
    db.insertInto("scalar_values").values(value),
    db.insertInto("list_values").values(value),
    db
      .insertInto("usage_ledger")
      .values({ ...row, ...UNATTRIBUTED, usage_id: "u", adjustment: false, ...spent, ...cost, usage: "{}" }),
    // Only a tenant that was inserted by hand has none.
    sql`insert into ${sql.id(schema, "usage_tenants")} (tenant_id, slug, position)
      values (${key.tenantId}, '', 0) on conflict do nothing`,
    db.insertInto("usage_sums").values({
      tenant_id: key.tenantId,
      span: "hour",
      start: 0,
      provider: "isolation",
      model: key.sessionId,
      adjustment: false,
      rows: "0",
      zero_cost_rows: "0",
      cache_write_1h: "0",
      reasoning: "0",
      input: "0",
      output: "0",
      cache_read: "0",
      cache_write: "0",
      total_tokens: "0",
      ...cost,
    }),
    sql`insert into ${sql.id(schema, "budgets")} (tenant_id, period, time_zone, amount, hard)
      values (${key.tenantId}, 'day', 'UTC', 0, false) on conflict do nothing`,
    db.insertInto("archives").values({ ...keyColumns(key), format: 0, sha256: "", bytes: 0, imported_at: 0 }),
    db.insertInto("archive_journal").values({ ...keyColumns(key), block: 0, content: Buffer.alloc(0) }),
  ] as const;
}

const UNATTRIBUTED = {
  timestamp: 0,
  spent_at: 0,
  provider: "unknown",
  model: "unknown",
  entry_type: "unknown",
  role: "unknown",
  root_session_id: "",
  dimensions: "{}",
  position: 0,
};

function setTenant(tenant: string): RawBuilder<unknown> {
  return sql`select set_config(${TENANT_SETTING}, ${tenant}, true)`;
}

function visibleTables({ schema }: Tables, { tenantId }: SessionKey): RawBuilder<{ table: string }> {
  const each = TABLES.map(
    (table) => sql`
      select ${sql.lit(table)} as table
      where exists (select from ${sql.id(schema, table)} where tenant_id = ${tenantId}::uuid)`,
  );
  return sql<{ table: string }>`${sql.join(each, sql` union all `)}`;
}

/** Within a savepoint, since being refused is what is hoped for. */
async function mayWrite(trx: Transaction, key: SessionKey): Promise<boolean> {
  await trx.send(sql`savepoint attempt`);
  try {
    const row = { ...keyColumns(key), namespace: "isolation", key: randomUUID(), seq: 2, value: "0" };
    await trx.send(trx.db.insertInto("scalar_values").values(row));
    return true;
  } catch (error) {
    if (!isRefused(error)) throw error;
    return false;
  } finally {
    await trx.send(sql`rollback to savepoint attempt`);
  }
}
