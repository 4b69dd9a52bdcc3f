import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { DatabasePermissionError } from "./errors.ts";
import { read, type Tables } from "./transaction.ts";

/**
 * Whether the role that is connected sees the ledger of all tenants: the owner and its members, analysts, and whom no
 * policy binds. To others row-level security would show nothing, without a word.
 *
 * @throws DatabasePermissionError if it does not
 */
export async function assertSeesLedger(tables: Tables, context: Context): Promise<void> {
  const [seer] = await read(
    tables,
    context,
    () => sql<{ sees_all: boolean }>`
      select r.rolsuper or r.rolbypassrls or exists (
        select from pg_policy as p, unnest(p.polroles) as granted(role)
        where p.polrelid = c.oid and p.polname in ('all_for_owner', 'all_for_analyst')
          and pg_has_role(granted.role, 'usage')
      ) as sees_all
      from pg_class as c join pg_namespace as n on n.oid = c.relnamespace, pg_roles as r
      where n.nspname = ${tables.schema} and c.relname = 'usage_ledger' and r.rolname = current_user`,
  );
  if (seer?.sees_all !== true) {
    throw new DatabasePermissionError("read the ledger of all tenants, which it sees one at a time");
  }
}
