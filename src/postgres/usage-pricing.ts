import { type Kysely, type RawBuilder, sql } from "kysely";
import type { DB } from "./schema.generated.ts";
import type { Fact } from "./usage-facts.ts";

/**
 * Of the models that some of these facts got for nothing, those that cost the same tenant something at any time, as
 * (tenant, provider, model). Looks at the sums of the ledger, and at the rows that are not in them yet.
 */
export function pricedModels(db: Kysely<DB>, facts: RawBuilder<Fact>): RawBuilder<unknown> {
  const costsSomething = db
    .selectFrom("usage_sums as s")
    .where("s.tenant_id", "=", sql.ref<string>("z.tenant_id"))
    .where("s.provider", "=", sql.ref<string>("z.provider"))
    .where("s.model", "=", sql.ref<string>("z.model"))
    .where("s.span", "=", sql.lit("month"))
    .where("s.cost_total", "<>", sql.lit("0"));
  const cost = db
    .selectFrom("usage_ledger as u")
    .where("u.tenant_id", "=", sql.ref<string>("z.tenant_id"))
    .where("u.position", ">=", sql<number>`coalesce(${position(db)}, 0)`)
    .where("u.provider", "=", sql.ref<string>("z.provider"))
    .where("u.model", "=", sql.ref<string>("z.model"))
    .where("u.cost_total", "<>", sql.lit("0"));
  return sql`
    select z.tenant_id, z.provider, z.model
    from (
      select distinct f.tenant_id, f.provider, f.model from (${facts}) as f where f.zero_cost_rows > 0
    ) as z
    where exists ${costsSomething} or exists ${cost}`;
}

/** Up to which the ledger is in the sums. */
function position(db: Kysely<DB>) {
  return db
    .selectFrom("usage_tenants as t")
    .select("t.position")
    .where("t.tenant_id", "=", sql.ref<string>("z.tenant_id"));
}
