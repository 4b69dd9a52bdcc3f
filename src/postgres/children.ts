import { type ExpressionBuilder, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import { assertEntryId } from "../contract/text.ts";
import { scanLimit } from "./entries.ts";
import { entryOf, STRUCTURE_COLUMNS } from "./entry-columns.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";

/**
 * The entries that follow one entry, or the roots, in the order of their `seq`: the one that goes on with its run,
 * and those that begin a run of their own.
 *
 * @throws InvalidTextError
 */
export async function getChildren(
  tables: Tables,
  key: SessionKey,
  parentId: string | null,
  { limit }: { limit?: number },
  context: Context,
): Promise<Entry[]> {
  if (parentId !== null) assertEntryId("parent id", parentId);
  const atMost = scanLimit(limit);
  const columns = [...STRUCTURE_COLUMNS, "payload"] as const;
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom((eb) =>
        eb
          .selectFrom("entries")
          .select(columns)
          .where(isSession(key))
          .where("parent_id", parentId === null ? "is" : "=", parentId)
          .whereRef("seq", "=", "run")
          .unionAll(
            eb
              .selectFrom(runOf(key, parentId ?? ""))
              .innerJoinLateral(
                (next) =>
                  next
                    .selectFrom("entries")
                    .select(columns)
                    .where(isSession(key))
                    .where(isExactly("entries.run", sql.ref("parent.run")))
                    .whereRef("entries.seq", ">", "parent.seq")
                    .orderBy("entries.run")
                    .orderBy("entries.seq")
                    .limit(1)
                    .as("next"),
                (join) => join.onTrue(),
              )
              .select(columns.map((column) => `next.${column}` as const))
              .where(sql<boolean>`${parentId !== null}`),
          )
          .as("child"),
      )
      .select(STRUCTURE_COLUMNS)
      .select(sql<string>`payload::text`.as("payload"))
      .orderBy("seq")
      .$if(atMost !== undefined, (children) => children.limit(atMost as number)),
  );
  return rows.map(entryOf);
}

function runOf(key: SessionKey, entryId: string) {
  return (eb: ExpressionBuilder<DB, never>) =>
    eb
      .selectFrom("entries")
      .select(["run", "seq"])
      .where(isSession(key))
      .where(isExactly("entry_id", entryId))
      .orderBy("entry_id")
      .limit(1)
      .as("parent");
}
