import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { UsageScan } from "../contract/storage.ts";
import type { UsageRow } from "../contract/write.ts";
import { scanLimit, seqBound } from "./entries.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";

/** @throws InvalidOptionError */
export async function scanUsage(
  tables: Tables,
  key: SessionKey,
  query: UsageScan,
  context: Context,
): Promise<UsageRow[]> {
  const limit = scanLimit(query.limit);
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom("usage_ledger")
      .select(["usage_id", "seq", "entry_id", "adjustment"])
      .select([sql<string>`usage::text`.as("usage"), sql<string | null>`details::text`.as("details")])
      .where(isSession(key))
      .$if(query.fromSeq !== undefined, (scan) => scan.where("seq", ">=", seqBound("fromSeq", query.fromSeq)))
      .$if(query.toSeq !== undefined, (scan) => scan.where("seq", "<=", seqBound("toSeq", query.toSeq)))
      .orderBy("seq", query.order === "desc" ? "desc" : "asc")
      .$if(limit !== undefined, (scan) => scan.limit(limit as number)),
  );
  return rows.map((row) => ({
    id: row.usage_id,
    seq: row.seq,
    usage: JSON.parse(row.usage),
    ...(row.entry_id === null ? {} : { entryId: row.entry_id }),
    adjustment: row.adjustment,
    ...(row.details === null ? {} : { details: JSON.parse(row.details) }),
  }));
}
