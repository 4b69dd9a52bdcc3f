import type { Context } from "../contract/context.ts";
import type { Entry, EntryStructure } from "../contract/entry.ts";
import { InvalidOptionError, UnknownEntryError } from "../contract/errors.ts";
import type { StorageBranchScan } from "../contract/storage.ts";
import { assertEntryId } from "../contract/text.ts";
import { branchStatement } from "./branch-statement.ts";
import { assertFilter } from "./entries.ts";
import { entryOf, type StructureRow, structureOf } from "./entry-columns.ts";
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
