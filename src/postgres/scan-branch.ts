import { assertAddress, branchTip } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry, EntryStructure } from "../contract/entry.ts";
import { InvalidOptionError, UnknownEntryError } from "../contract/errors.ts";
import type { StorageBranchScan, TipScan } from "../contract/storage.ts";
import { assertEntryId } from "../contract/text.ts";
import { branchStatement, type PathRow } from "./branch-statement.ts";
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
  assertEntryId("start of the branch scan", query.start);
  assertScan(query);
  const rows = await read(tables, context, (db) => branchStatement(db, key, query, { withPayload: true }));
  return entriesOf(rows, query.start);
}

/**
 * {@link scanBranch} from the tip of a branch; `undefined` if there is none.
 *
 * @throws UnknownEntryError when the tip is not an entry of the session, InvalidTextError, InvalidOptionError
 */
export async function scanTip(
  tables: Tables,
  key: SessionKey,
  branch: string,
  query: TipScan,
  context: Context,
): Promise<Entry[] | undefined> {
  const address = branchTip(branch);
  assertAddress(address.namespace, address.key);
  assertScan(query);
  const rows = await read(tables, context, (db) =>
    branchStatement(db, key, { ...query, branch }, { withPayload: true }),
  );
  const [{ tip, known } = {}] = rows;
  if (typeof tip !== "string") return undefined;
  const start: unknown = JSON.parse(tip);
  if (start === null) return [];
  if (known === true && typeof start === "string") return entriesOf(rows, start);
  // The server read no id in it: there is an escape in its JSON, or it is none.
  return scanBranch(tables, key, { ...query, start: start as string }, context);
}

/** {@link scanBranch} without reading a payload. */
export async function scanBranchStructure(
  tables: Tables,
  key: SessionKey,
  query: StorageBranchScan,
  context: Context,
): Promise<EntryStructure[]> {
  assertEntryId("start of the branch scan", query.start);
  assertScan(query);
  const rows = await read(tables, context, (db) => branchStatement(db, key, query, { withPayload: false }));
  return pathOf(rows, query.start).map(structureOf);
}

/** @throws InvalidTextError, InvalidOptionError */
function assertScan({ stopAtId, stopAtType, order, ...filter }: TipScan): void {
  if (stopAtId !== undefined) assertEntryId("stop of the branch scan", stopAtId);
  if (stopAtType !== undefined) assertFilter({ type: stopAtType });
  assertFilter(filter);
  if (order !== undefined && order !== "newestFirst" && order !== "oldestFirst") {
    throw new InvalidOptionError("order", order, "pass newestFirst or oldestFirst");
  }
}

function entriesOf(rows: PathRow[], start: string): Entry[] {
  return pathOf(rows, start).map((row) => entryOf(row as StructureRow & { payload: string }));
}

/** The statement returns one row without an entry where the path, after stop and filters, is empty. */
function pathOf(rows: PathRow[], start: string): (PathRow & StructureRow)[] {
  if (rows[0]?.known !== true) throw new UnknownEntryError(start);
  return rows.filter((row): row is PathRow & StructureRow => row.entry_id !== null);
}
