import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { read, type Tables } from "./transaction.ts";

/** What a tenant spent on one model. */
export interface ModelUsage {
  /**
   * Provider of the assistant message that a usage row names; `unknown` for rows whose entry is not an assistant
   * message.
   */
  provider: string;
  /**
   * Model of the assistant message that a usage row names; `unknown` for rows whose entry is not an assistant
   * message.
   */
  model: string;
  /** Number of usage rows, adjustments excluded. */
  calls: number;
  /** Input tokens that were neither read from nor written to a cache; exact up to 2^53. */
  input: number;
  /** Output tokens; exact up to 2^53. */
  output: number;
  /** Input tokens that were read from a cache; exact up to 2^53. */
  cacheRead: number;
  /** Input tokens that were written to a cache; exact up to 2^53. */
  cacheWrite: number;
  /** Sum of the rows' own totals; exact up to 2^53. */
  totalTokens: number;
  /** US dollars, exact, as the text of a decimal number. */
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
      .select([
        "u.provider",
        "u.model",
        sql<number>`count(*) filter (where not u.adjustment)`.as("calls"),
        sql<number>`sum(u.input)::double precision`.as("input"),
        sql<number>`sum(u.output)::double precision`.as("output"),
        sql<number>`sum(u.cache_read)::double precision`.as("cacheRead"),
        sql<number>`sum(u.cache_write)::double precision`.as("cacheWrite"),
        sql<number>`sum(u.total_tokens)::double precision`.as("totalTokens"),
        sql<string>`trim_scale(sum(u.cost_total))`.as("cost"),
      ])
      .where("u.tenant_id", "=", tenantId)
      .groupBy(["u.provider", "u.model"])
      .orderBy(sql`sum(u.cost_total)`, "desc")
      .orderBy("u.provider")
      .orderBy("u.model"),
  );
  return rows;
}
