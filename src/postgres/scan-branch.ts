import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { Entry, EntryStructure } from "../contract/entry.ts";
import { UnknownEntryError } from "../contract/errors.ts";
import type { StorageBranchScan } from "../contract/storage.ts";
import { assertCustomType, assertEntryId } from "../contract/text.ts";
import { withPath } from "./branch-path.ts";
import { scanLimit, seqBound } from "./entries.ts";
import { entryOf, STRUCTURE_COLUMNS, type StructureRow, structureOf } from "./entry-columns.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { read, type Tables } from "./transaction.ts";

/** @throws UnknownEntryError when the start is no entry of the session, InvalidTextError */
export async function scanBranch(
  tables: Tables,
  key: SessionKey,
  query: StorageBranchScan,
  context: Context,
): Promise<Entry[]> {
  assertScan(query);
  const rows = await read(tables, context, (db, options) =>
    branchStatement(db, key, query, { withPayload: true }).execute(options),
  );
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
  const rows = await read(tables, context, (db, options) =>
    branchStatement(db, key, query, { withPayload: false }).execute(options),
  );
  return pathOf(rows, query.start).map(structureOf);
}

/** @throws InvalidTextError */
function assertScan({ start, stopAtId, customType }: StorageBranchScan): void {
  assertEntryId("start of the branch scan", start);
  if (stopAtId !== undefined) assertEntryId("stop of the branch scan", stopAtId);
  if (customType !== undefined) assertCustomType(customType);
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
 * it left it. `seq` falls towards the root, so stop and cursor are bounds of `seq`.
 */
function branchStatement(
  db: Kysely<DB>,
  { tenantId, sessionId }: SessionKey,
  query: StorageBranchScan,
  { withPayload }: { withPayload: boolean },
) {
  const isOldestFirst = query.order === "oldestFirst";
  const hasStop = query.stopAtId !== undefined || query.stopAtType !== undefined;
  const limit = scanLimit(query.limit);
  return (
    withPath(db, { tenantId, sessionId }, query.start)
      .with("stop", (cte) =>
        cte
          .selectFrom("path")
          .innerJoin("entries as node", (join) =>
            join
              .on("node.tenant_id", "=", tenantId)
              .on("node.session_id", "=", sessionId)
              .onRef("node.run", "=", "path.run")
              .onRef("node.seq", "<=", "path.upto"),
          )
          .select((eb) => (isOldestFirst ? eb.fn.min("node.seq") : eb.fn.max("node.seq")).as("seq"))
          .where((eb) =>
            eb.or([
              ...(query.stopAtId === undefined ? [] : [eb("node.entry_id", "=", query.stopAtId)]),
              ...(query.stopAtType === undefined ? [] : [eb("node.type", "=", query.stopAtType)]),
            ]),
          ),
      )
      .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
      .leftJoin(
        (eb) =>
          eb
            .selectFrom("path")
            .innerJoin("entries as node", (join) =>
              join
                .on("node.tenant_id", "=", tenantId)
                .on("node.session_id", "=", sessionId)
                .onRef("node.run", "=", "path.run")
                .onRef("node.seq", "<=", "path.upto"),
            )
            .select(STRUCTURE_COLUMNS.map((column) => `node.${column}` as const))
            .$if(withPayload, (found) => found.select("node.payload"))
            .$if(hasStop, (found) => found.where(isOldestFirst ? UP_TO_STOP : DOWN_TO_STOP))
            .$if(query.cursor !== undefined, (found) =>
              found.where("node.seq", isOldestFirst ? ">" : "<", seqBound(query.cursor?.seq)),
            )
            .$if(query.type !== undefined, (found) => found.where("node.type", "=", query.type as string))
            .$if(query.customType !== undefined, (found) =>
              found.where("node.custom_type", "=", query.customType as string),
            )
            .orderBy("node.seq", isOldestFirst ? "asc" : "desc")
            .$if(limit !== undefined, (found) => found.limit(limit as number))
            .as("found"),
        (join) => join.onTrue(),
      )
      .select(sql<boolean>`exists (select from path)`.as("known"))
      .select(STRUCTURE_COLUMNS.map((column) => `found.${column}` as const))
      // Cast outside of the limit, so that only what is returned is read from storage.
      .$if(withPayload, (rows) => rows.select(sql<string>`found.payload::text`.as("payload")))
      .orderBy("found.seq", isOldestFirst ? "asc" : "desc")
  );
}

const UP_TO_STOP = sql<boolean>`node.seq <= coalesce((select seq from stop), node.seq)`;
const DOWN_TO_STOP = sql<boolean>`node.seq >= coalesce((select seq from stop), node.seq)`;
