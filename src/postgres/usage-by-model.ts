import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { read, type Tables } from "./transaction.ts";

/** What a tenant spent on one model. */
export interface ModelUsage {
  /** `unknown` where no assistant message is named by the ledger. */
  provider: string;
  model: string;
  calls: number;
  /** Tokens; exact up to 2^53. */
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  totalTokens: number;
  /** US dollars, exact, as a decimal. */
  cost: string;
}

/** The whole ledger of a tenant by model, the most expensive first. */
export async function usageByModel(
  tables: Tables,
  tenantId: string,
  context: Context,
): Promise<ModelUsage[]> {
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom("usage_ledger as u")
      .leftJoin("entries as e", (join) =>
        join
          .on("e.tenant_id", "=", tenantId)
          .onRef("e.session_id", "=", "u.session_id")
          .onRef("e.entry_id", "=", "u.entry_id"),
      )
      .select([
        sql<string>`coalesce(e.provider, 'unknown')`.as("provider"),
        sql<string>`coalesce(e.model, 'unknown')`.as("model"),
        sql<number>`count(*) filter (where not u.adjustment)`.as("calls"),
        sql<number>`sum(u.input)::double precision`.as("input"),
        sql<number>`sum(u.output)::double precision`.as("output"),
        sql<number>`sum(u.cache_read)::double precision`.as("cacheRead"),
        sql<number>`sum(u.cache_write)::double precision`.as("cacheWrite"),
        sql<number>`sum(u.total_tokens)::double precision`.as("totalTokens"),
        sql<string>`trim_scale(sum(u.cost_total))`.as("cost"),
      ])
      .where("u.tenant_id", "=", tenantId)
      .groupBy([sql`1`, sql`2`])
      .orderBy(sql`sum(u.cost_total)`, "desc")
      .orderBy(sql`1`)
      .orderBy(sql`2`),
  );
  return rows;
}
