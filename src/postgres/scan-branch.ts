import { type ExpressionBuilder, type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { Entry, EntryStructure } from "../contract/entry.ts";
import { InvalidOptionError, UnknownEntryError } from "../contract/errors.ts";
import type { StorageBranchScan } from "../contract/storage.ts";
import { assertEntryId } from "../contract/text.ts";
import { withPath } from "./branch-path.ts";
import { assertFilter, scanLimit, seqBound } from "./entries.ts";
import { entryOf, STRUCTURE_COLUMNS, type StructureRow, structureOf } from "./entry-columns.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { read, type Tables } from "./transaction.ts";

/** @throws UnknownEntryError when the start is not an entry of the session, InvalidTextError, InvalidOptionError */
export async function scanBranch(
  tables: Tables,
  key: SessionKey,
  query: StorageBranchScan,
  context: Context,
): Promise<Entry[]> {
  assertScan(query);
  const rows = await read(tables, context, (db) => branchStatement(db, key, query, { withPayload: true }));
  return pathOf(rows, query.start).map((row) => entryOf(row as StructureRow & { payload: string }));
}

/** {@link scanBranch} without reading a payload. */
export async function scanBranchStructure(
  tables: Tables,
  key: SessionKey,
  query: StorageBranchScan,
  context: Context,
): Promise<EntryStructure[]> {
  assertScan(query);
  const rows = await read(tables, context, (db) => branchStatement(db, key, query, { withPayload: false }));
  return pathOf(rows, query.start).map(structureOf);
}

/** @throws InvalidTextError, InvalidOptionError */
function assertScan({ start, stopAtId, stopAtType, order, ...filter }: StorageBranchScan): void {
  assertEntryId("start of the branch scan", start);
  if (stopAtId !== undefined) assertEntryId("stop of the branch scan", stopAtId);
  if (stopAtType !== undefined) assertFilter({ type: stopAtType });
  assertFilter(filter);
  if (order !== undefined && order !== "newestFirst" && order !== "oldestFirst") {
    throw new InvalidOptionError("order", order, "pass newestFirst or oldestFirst");
  }
}

/** The statement returns one row without an entry where the path, after stop and filters, is empty. */
function pathOf<TRow extends { known: boolean; entry_id: string | null }>(
  rows: TRow[],
  start: string,
): (TRow & StructureRow)[] {
  if (rows[0]?.known !== true) throw new UnknownEntryError(start);
  return rows.filter((row): row is TRow & StructureRow => row.entry_id !== null);
}

/**
 * Walks from run to run: a path to the root is, of each run that it passes, everything up to the entry where
 * it left it. `seq` falls towards the root, so stop and cursor are bounds of `seq`. Each run is read by a lateral
 * query in the order of its index, so the planner cannot choose to read the whole session.
 */
export function branchStatement(
  db: Kysely<DB>,
  { tenantId, sessionId }: SessionKey,
  query: StorageBranchScan,
  { withPayload }: { withPayload: boolean },
) {
  const { cursor, type, customType, stopAtId, stopAtType } = query;
  const isOldestFirst = query.order === "oldestFirst";
  const order = isOldestFirst ? "asc" : "desc";
  const limit = scanLimit(query.limit);
  const ofRun = (eb: ExpressionBuilder<DB & { path: Path }, "path">) =>
    eb
      .selectFrom("entries as node")
      .where("node.tenant_id", "=", tenantId)
      .where("node.session_id", "=", sessionId)
      .whereRef("node.run", "=", "path.run")
      .whereRef("node.seq", "<=", "path.upto");
  return (
    withPath(db, { tenantId, sessionId }, query.start)
      .with("stop", (cte) =>
        cte
          .selectFrom((eb) =>
            eb
              .selectFrom("path")
              .innerJoinLateral(
                (run) =>
                  ofRun(run)
                    .select("node.seq")
                    .$if(stopAtType !== undefined, (found) => found.where(isOfType(stopAtType as string)))
                    .orderBy("node.seq", order)
                    // No stop: not a condition that is false, for which PostgreSQL 15 plans a walk through the table.
                    .limit(stopAtType === undefined ? sql<number>`0` : 1)
                    .as("node"),
                (join) => join.onTrue(),
              )
              .select("node.seq")
              .$if(stopAtId !== undefined, (byType) =>
                byType.unionAll(
                  eb
                    .selectFrom((named) =>
                      named
                        .selectFrom("entries")
                        .select(["run", "seq"])
                        .where("tenant_id", "=", tenantId)
                        .where("session_id", "=", sessionId)
                        .where(isExactly("entry_id", stopAtId as string))
                        .orderBy("entry_id")
                        .limit(1)
                        .as("named"),
                    )
                    .innerJoin("path", (join) =>
                      join.onRef("path.run", "=", "named.run").onRef("named.seq", "<=", "path.upto"),
                    )
                    .select("named.seq"),
                ),
              )
              .as("found"),
          )
          .select(
            isOldestFirst
              ? sql<number>`coalesce(min(found.seq), ${sql.lit(Number.MAX_SAFE_INTEGER)})`.as("seq")
              : sql<number>`coalesce(max(found.seq), 0)`.as("seq"),
          ),
      )
      .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
      .leftJoin(
        (eb) =>
          eb
            .selectFrom("path")
            .innerJoinLateral(
              (run) =>
                ofRun(run)
                  .select(STRUCTURE_COLUMNS.map((column) => `node.${column}` as const))
                  .$if(withPayload, (found) => found.select("node.payload"))
                  .where(isOldestFirst ? UP_TO_STOP : DOWN_TO_STOP)
                  .$if(cursor !== undefined, (found) =>
                    found.where("node.seq", isOldestFirst ? ">" : "<", seqBound("cursor", cursor?.seq)),
                  )
                  .$if(type !== undefined, (found) => found.where(isOfType(type as string)))
                  .$if(customType !== undefined, (found) =>
                    found.where("node.custom_type", "=", customType as string),
                  )
                  .orderBy("node.seq", order)
                  .$if(limit !== undefined, (found) => found.limit(limit as number))
                  .as("node"),
              (join) => join.onTrue(),
            )
            .select(STRUCTURE_COLUMNS.map((column) => `node.${column}` as const))
            .$if(withPayload, (found) => found.select("node.payload"))
            .orderBy("node.seq", order)
            .$if(limit !== undefined, (found) => found.limit(limit as number))
            .as("found"),
        (join) => join.onTrue(),
      )
      .select(sql<boolean>`exists (select from path)`.as("known"))
      .select(STRUCTURE_COLUMNS.map((column) => `found.${column}` as const))
      // Cast outside of the limit, so that only what is returned is read from storage.
      .$if(withPayload, (rows) => rows.select(sql<string>`found.payload::text`.as("payload")))
      .orderBy("found.seq", order)
  );
}

const INDEXED_TYPES: ReadonlySet<string> = new Set(["compaction", "branch_summary", "custom"]);

/**
 * Types that have an index are part of the text, so that the planner can prove that it serves. Messages have none:
 * there is one nearby, and those in between are read anyway.
 */
function isOfType(type: string) {
  return sql<boolean>`node.type = ${INDEXED_TYPES.has(type) ? sql.lit(type) : type}`;
}

interface Path {
  run: number;
  upto: number;
}

// Not coalesced here: row-level security lets only what cannot leak into an index condition, and that is not on its list.
const UP_TO_STOP = sql<boolean>`node.seq <= (select seq from stop)`;
const DOWN_TO_STOP = sql<boolean>`node.seq >= (select seq from stop)`;
