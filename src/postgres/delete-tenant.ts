import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { DB } from "./schema.generated.ts";
import type { Tenant } from "./tenant-id.ts";
import { readCommitted, type Statement, type Tables, write } from "./transaction.ts";

/** How many rows a deletion has removed. */
export interface DeletedRows {
  /** Sessions of the tenant. */
  sessions: number;
  /** Entries of those sessions. */
  entries: number;
  /** Rows of their usage ledgers. */
  usageRows: number;
  /** Their current values. */
  values: number;
  /** Elements of their lists. */
  listElements: number;
}

const ROWS_PER_BATCH = 10_000;
/** Removing the row of a session looks for what it has left in each of the other tables. */
const SESSIONS_PER_BATCH = 1_000;

/** In this order, so that a session's row goes last and little is left for its cascade. */
const TABLES = [
  { table: "usage_ledger", rows: "usageRows" },
  { table: "entries", rows: "entries" },
  { table: "list_values", rows: "listElements" },
  { table: "scalar_values", rows: "values" },
  { table: "sessions", rows: "sessions" },
] as const;

/**
 * Removes all rows of a tenant that nobody can write any more, then the tenant. Each batch is a transaction that
 * locks rows of this tenant only; after an interruption it goes on with what is left.
 *
 * @param onProgress called after each batch, with the rows removed so far
 * @throws the reason of the context's abort signal, between two batches
 */
export async function deleteTenant(
  tables: Tables,
  { tenantId }: Tenant,
  onProgress: (removed: DeletedRows) => void,
  context: Context,
): Promise<DeletedRows> {
  const removed: DeletedRows = { sessions: 0, entries: 0, usageRows: 0, values: 0, listElements: 0 };
  for (const { table, rows } of TABLES) {
    const size = table === "sessions" ? SESSIONS_PER_BATCH : ROWS_PER_BATCH;
    for (let count = size; count === size; ) {
      const [batch] = await write(tables, context, (db) => deleteBatch(db, table, tenantId, size));
      count = batch?.count ?? 0;
      removed[rows] += count;
      if (count > 0) onProgress({ ...removed });
    }
  }
  // A commit that was under way when the tenant was closed may have left a session behind the first pass.
  await readCommitted(tables, context, (trx) =>
    trx.commitWith(
      trx.db.deleteFrom("sessions").where("tenant_id", "=", tenantId),
      trx.db.deleteFrom("tenants").where("tenant_id", "=", tenantId),
    ),
  );
  return removed;
}

function deleteBatch(
  db: Kysely<DB>,
  table: (typeof TABLES)[number]["table"],
  tenantId: string,
  size: number,
): Statement<{ count: number }> {
  return db
    .with("deleted", (cte) =>
      cte
        // All five have these columns.
        .deleteFrom(table as "entries")
        .where("tenant_id", "=", tenantId)
        .where(
          sql<boolean>`ctid = any(array(
              select ctid from ${sql.table(`${table}`)} where tenant_id = ${tenantId} limit ${sql.lit(size)}))`,
        )
        .returning("tenant_id"),
    )
    .selectFrom("deleted")
    .select((eb) => eb.fn.countAll<number>().as("count"));
}
