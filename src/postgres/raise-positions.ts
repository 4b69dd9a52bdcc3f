import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { readCommitted, type Tables } from "./transaction.ts";

/**
 * Lets positions in the ledger begin above all that are there: makes the function `position_offset` anew, whose result
 * is part of every position (sql/0009_attribution.sql). Nobody may write the ledger meanwhile.
 *
 * @throws DatabasePermissionError when the role does not own the schema
 */
export async function raisePositions(tables: Tables, context: Context): Promise<void> {
  const offset = sql.id(tables.schema, "position_offset");
  await readCommitted(tables, context, async (trx) => {
    const [, [found]] = await trx.send(
      sql`lock table ${sql.id(tables.schema, "usage_ledger")} in share row exclusive mode`,
      sql<{ offset: number }>`
        select greatest(
          ${offset}(),
          coalesce((select max(position) from ${sql.id(tables.schema, "usage_ledger")}), 0) + 1
            - pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        ) as offset`,
    );
    await trx.commitWith(
      sql`create or replace function ${offset}() returns bigint language sql stable parallel safe
        return ${sql.lit(found?.offset ?? 0)}::bigint`,
    );
  });
}
