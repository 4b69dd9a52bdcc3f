import type { Entry } from "../contract/entry.ts";
import { InvalidWriteError } from "../contract/errors.ts";
import { addUsage, type SessionStats, type Usage } from "../contract/usage.ts";
import type { CommittedWrite } from "../contract/write.ts";
import { entryColumns } from "./entry-columns.ts";
import type { ImportedWrite } from "./import-session.ts";
import { type Attribution, attributionOf, type SpendingEntry } from "./usage-attribution.ts";
import type { SpentColumn } from "./usage-columns.ts";

/** Parallel arrays, one element per row: a statement then has the same few parameters for any number of rows. */
export type Columns<TColumn extends string> = Record<TColumn, ColumnValue[]>;
/** A `Buffer` is JSON in UTF-8, as only an import has it. */
type ColumnValue = string | number | boolean | Buffer | null;

export type EntryColumn =
  | "entry_id"
  | "parent_id"
  | "seq"
  | "chain"
  | "joins"
  | "timestamp"
  | "type"
  | "custom_type"
  | "role"
  | "provider"
  | "model"
  | "preview"
  | "payload";

export type UsageColumn =
  | "usage_id"
  | "seq"
  | "timestamp"
  | "entry_id"
  | "adjustment"
  | SpentColumn
  | "usage"
  | "details"
  | keyof Attribution;

export type AddressColumn = "namespace" | "key";
export type ValueColumn = AddressColumn | "seq" | "value";

/** The writes of a commit, by table. */
export interface WriteBatch {
  entries: Columns<EntryColumn>;
  usage: Columns<UsageColumn>;
  setValues: Columns<ValueColumn>;
  deleteValues: Columns<AddressColumn>;
  appendLists: Columns<ValueColumn>;
  /** Elements below the seq. */
  deleteLists: Columns<AddressColumn | "seq">;
  /** Parents that must already be in the session. */
  outsideParents: string[];
  /** UTF-8 bytes of all JSON in the batch. */
  bytes: number;
  /** Of the largest payload. */
  largestEntryBytes: number;
}

/**
 * Sorts placed writes by table. `timestamp` dates usage rows that bring none; `firstIndex` is the position of the
 * first write in its commit. Of several writes to one value only the last counts; of a list, those after its last
 * deletion.
 *
 * @throws InvalidWriteError when a value cannot be written as JSON
 */
export function batchWrites(
  writes: readonly ImportedWrite[],
  { timestamp, firstIndex }: { timestamp: number; firstIndex: number },
): WriteBatch {
  const batch = emptyBatch();
  const values = new Map<string, { write: Extract<CommittedWrite, { kind: "value" }>; index: number }>();
  const lists = new Map<string, ListWrites>();
  const usageRows: UsageRowWrite[] = [];
  const chains = new Chains();
  writes.forEach((write, position) => {
    const index = firstIndex + position;
    switch (write.kind) {
      case "entry":
        addEntry(batch, write, chains, index);
        return;
      case "usage":
        usageRows.push({ write, index });
        return;
      case "value":
        values.set(addressOf(write), { write, index });
        return;
      case "list": {
        const known = lists.get(addressOf(write));
        if (write.op === "append" && known !== undefined) known.appends.push({ write, index });
        else lists.set(addressOf(write), startList(write, index));
      }
    }
  });
  addUsageRows(batch, usageRows, timestamp);
  for (const { write, index } of values.values()) {
    if (write.op === "set") addValue(batch, batch.setValues, write, index);
    else addRow(batch.deleteValues, { namespace: write.namespace, key: write.key });
  }
  for (const { deletedAt, appends, namespace, key } of lists.values()) {
    if (deletedAt !== undefined) addRow(batch.deleteLists, { namespace, key, seq: deletedAt });
    for (const { write, index } of appends) addValue(batch, batch.appendLists, write, index);
  }
  batch.outsideParents = chains.outsideParents;
  return batch;
}

/** The totals after these writes. */
export function addStats(before: SessionStats, writes: readonly CommittedWrite[]): SessionStats {
  let { messageCount, usage } = before;
  for (const write of writes) {
    if (write.kind === "entry" && write.type === "message") messageCount++;
    if (write.kind === "usage") usage = addUsage(usage, write.usage);
  }
  return { messageCount, usage };
}

interface UsageRowWrite {
  write: Extract<ImportedWrite, { kind: "usage" }>;
  index: number;
}

type ListWrite = Extract<CommittedWrite, { kind: "list" }>;
type ListAppend = Extract<ListWrite, { op: "append" }>;

interface ListWrites {
  namespace: string;
  key: string;
  /** The seq of the last deletion. */
  deletedAt: number | undefined;
  appends: { write: ListAppend; index: number }[];
}

function startList(write: ListWrite, index: number): ListWrites {
  const { namespace, key, seq } = write;
  return write.op === "append"
    ? { namespace, key, deletedAt: undefined, appends: [{ write, index }] }
    : { namespace, key, deletedAt: seq, appends: [] };
}

/**
 * Follows the runs through a commit. An entry whose parent is in the same commit is placed here; for the
 * others the server decides, since only it knows whether the parent has children.
 */
class Chains {
  readonly #byEntry = new Map<string, { chain: number; joins: string | null; hasChild: boolean }>();
  readonly #outside = new Set<string>();

  get outsideParents(): string[] {
    return [...this.#outside];
  }

  /** `chain` is the run unless the entry `joins` can be continued, whose run it then is. */
  place(entry: Entry): { chain: number; joins: string | null } {
    const place = this.#placeAfter(entry.parentId, entry.seq);
    this.#byEntry.set(entry.id, { ...place, hasChild: false });
    return place;
  }

  #placeAfter(parentId: string | null, seq: number): { chain: number; joins: string | null } {
    const parent = parentId === null ? undefined : this.#byEntry.get(parentId);
    if (parent !== undefined && !parent.hasChild) {
      parent.hasChild = true;
      return { chain: parent.chain, joins: parent.joins };
    }
    if (parentId === null || parent !== undefined || this.#outside.has(parentId))
      return { chain: seq, joins: null };
    this.#outside.add(parentId);
    return { chain: seq, joins: parentId };
  }
}

function addEntry(
  batch: WriteBatch,
  { payloadJson, ...entry }: Entry & { payloadJson?: Buffer },
  chains: Chains,
  index: number,
): void {
  const { payload, ...columns } = entryColumns(entry);
  const json = payloadJson ?? toJson(payload, index);
  batch.largestEntryBytes = Math.max(batch.largestEntryBytes, count(batch, json));
  addRow(batch.entries, { ...columns, ...chains.place(entry), payload: json });
}

function addUsageRows(batch: WriteBatch, rows: readonly UsageRowWrite[], timestamp: number): void {
  if (rows.length === 0) return;
  const entries = spendingEntries(batch);
  for (const { write, index } of rows) {
    const entry = write.spentBy ?? (write.entryId === undefined ? undefined : entries.get(write.entryId));
    addUsageRow(batch, { ...write, ...attributionOf(write, entry) }, { timestamp, index });
  }
}

function spendingEntries({ entries }: WriteBatch): Map<unknown, SpendingEntry> {
  return new Map(
    entries.entry_id.map((id, row) => {
      const entry = {
        provider: entries.provider[row],
        model: entries.model[row],
        timestamp: entries.timestamp[row],
        type: entries.type[row],
        role: entries.role[row],
      };
      return [id, entry as SpendingEntry];
    }),
  );
}

function addUsageRow(
  batch: WriteBatch,
  row: UsageRowWrite["write"] & Attribution,
  { timestamp, index }: { timestamp: number; index: number },
): void {
  const usage = toJson(row.usage, index);
  const details = row.details === undefined ? null : toJson(row.details, index);
  count(batch, usage);
  count(batch, details);
  addRow(batch.usage, {
    usage_id: row.id,
    seq: row.seq,
    timestamp: row.timestamp ?? timestamp,
    entry_id: row.entryId ?? null,
    adjustment: row.adjustment === true,
    ...tokenColumns(row.usage),
    usage,
    details,
    provider: row.provider,
    model: row.model,
    spent_at: row.spent_at,
    entry_type: row.entry_type,
    role: row.role,
    earlier_entry: row.earlier_entry,
  });
}

function tokenColumns(usage: Usage) {
  return {
    input: usage.input,
    output: usage.output,
    cache_read: usage.cacheRead,
    cache_write: usage.cacheWrite,
    cache_write_1h: usage.cacheWrite1h ?? null,
    reasoning: usage.reasoning ?? null,
    total_tokens: usage.totalTokens,
    // The shortest decimal that stands for the double, which `numeric` then keeps exactly.
    cost_input: String(usage.cost.input),
    cost_output: String(usage.cost.output),
    cost_cache_read: String(usage.cost.cacheRead),
    cost_cache_write: String(usage.cost.cacheWrite),
    cost_total: String(usage.cost.total),
  };
}

function addValue(
  batch: WriteBatch,
  columns: Columns<ValueColumn>,
  write: { namespace: string; key: string; seq: number; value: unknown },
  index: number,
): void {
  const { namespace, key, seq } = write;
  const value = toJson(write.value, index);
  count(batch, value);
  addRow(columns, { namespace, key, seq, value });
}

/** Adds the bytes of a JSON text to those of the batch, and returns them. */
function count(batch: WriteBatch, json: string | Buffer | null): number {
  const bytes = json === null ? 0 : Buffer.byteLength(json);
  batch.bytes += bytes;
  return bytes;
}

function toJson(data: unknown, index: number): string {
  try {
    const text: string | undefined = JSON.stringify(data);
    if (text !== undefined) return text;
  } catch (error) {
    throw new InvalidWriteError(index, "cannot be written as JSON", "pass JSON data only", { cause: error });
  }
  throw new InvalidWriteError(index, "has no value", "pass JSON data, or delete the address");
}

/** Neither part can contain a NUL. */
function addressOf({ namespace, key }: { namespace: string; key: string }): string {
  return `${namespace}\0${key}`;
}

function addRow<TColumn extends string>(columns: Columns<TColumn>, row: Record<TColumn, ColumnValue>): void {
  for (const column in row) columns[column].push(row[column]);
}

function emptyBatch(): WriteBatch {
  return {
    entries: {
      entry_id: [],
      parent_id: [],
      seq: [],
      chain: [],
      joins: [],
      timestamp: [],
      type: [],
      custom_type: [],
      role: [],
      provider: [],
      model: [],
      preview: [],
      payload: [],
    },
    usage: {
      usage_id: [],
      seq: [],
      timestamp: [],
      entry_id: [],
      adjustment: [],
      input: [],
      output: [],
      cache_read: [],
      cache_write: [],
      cache_write_1h: [],
      reasoning: [],
      total_tokens: [],
      cost_input: [],
      cost_output: [],
      cost_cache_read: [],
      cost_cache_write: [],
      cost_total: [],
      usage: [],
      details: [],
      provider: [],
      model: [],
      spent_at: [],
      entry_type: [],
      role: [],
      earlier_entry: [],
    },
    setValues: { namespace: [], key: [], seq: [], value: [] },
    deleteValues: { namespace: [], key: [] },
    appendLists: { namespace: [], key: [], seq: [], value: [] },
    deleteLists: { namespace: [], key: [], seq: [] },
    outsideParents: [],
    bytes: 0,
    largestEntryBytes: 0,
  };
}
