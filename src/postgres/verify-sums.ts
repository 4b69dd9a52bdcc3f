import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { read, type Tables } from "./transaction.ts";
import { SUM_COLUMNS } from "./usage-columns.ts";
import type { Fault } from "./verify-session.ts";

const MEASURES = sql.raw(SUM_COLUMNS.join(", "));

/** Whether the sums of a tenant's ledger are those of its rows, as far as they are summed. */
export async function examineSums(tables: Tables, tenantId: string, context: Context): Promise<Fault[]> {
  const [row] = await read(
    tables,
    context,
    () => sql<{ differing: number }>`
      with summed as materialized (
        select span, start, provider, model, adjustment, array[${MEASURES}] as measures
        from ${sql.id(tables.schema, "sum_usage")}(${tenantId}, null, 0, (
          select t.position from ${sql.id(tables.schema, "usage_tenants")} as t where t.tenant_id = ${tenantId}))
      ), stored as materialized (
        select span, start, provider, model, adjustment, array[${MEASURES}] as measures
        from ${sql.id(tables.schema, "usage_sums")} where tenant_id = ${tenantId}
      )
      select count(*) as differing
      from summed full join stored using (span, start, provider, model, adjustment)
      where summed.measures is distinct from stored.measures`,
    { plans: "sorted" },
  );
  const differing = row?.differing ?? 0;
  if (differing === 0) return [];
  const what = `${differing} sums of hours, days and months differ from the ledger`;
  return [{ check: "usage_sums", count: differing, what }];
}
