import { type RawBuilder, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { DatabasePermissionError } from "./errors.ts";
import { read, type Tables } from "./transaction.ts";

/**
 * Whether row-level security shows the role that is connected the ledger of all tenants, as it does to the owner and to
 * analysts. To others it would show nothing, without a word.
 */
export function seesLedger(schema: string): RawBuilder<boolean> {
  return sql`(
    select r.rolsuper or r.rolbypassrls or exists (
      select from pg_policy as o, unnest(o.polroles) as s(role)
      where o.polrelid = l.oid and o.polpermissive and o.polcmd in ('r', '*')
        and pg_get_expr(o.polqual, o.polrelid) = 'true' and (s.role = 0 or pg_has_role(s.role, 'usage')))
    from pg_class as l join pg_namespace as n on n.oid = l.relnamespace, pg_roles as r
    where n.nspname = ${schema} and l.relname = 'usage_ledger' and r.rolname = current_user)`;
}

/** @throws DatabasePermissionError */
export async function assertSeesLedger(tables: Tables, context: Context): Promise<void> {
  const [seer] = await read(
    tables,
    context,
    () => sql<{ sees_all: boolean }>`select ${seesLedger(tables.schema)} as sees_all`,
  );
  if (seer?.sees_all !== true) {
    throw new DatabasePermissionError("read the ledger of all tenants, which it sees one at a time");
  }
}
