import { type Address, assertAddress, type Value, type ValueList } from "./address.ts";
import type { Entry, NewEntry } from "./entry.ts";
import { DuplicateIdError, InvalidWriteError } from "./errors.ts";
import type { JsonValue } from "./json.ts";
import { assertCustomType, assertEntryId, assertText, TEXT_LIMITS } from "./text.ts";
import { assertUsage, type SessionStats, type Usage } from "./usage.ts";

/** One change of a session; several make a commit. */
export type Write = EntryWrite | UsageWrite | ValueWrite | ListWrite;

export interface EntryWrite {
  kind: "entry";
  entry: NewEntry;
}

export interface UsageWrite {
  kind: "usage";
  row: Omit<UsageRow, "seq">;
}

export type ValueWrite = ValueSetWrite | ValueDeleteWrite;
export type ListWrite = ListAppendWrite | ListDeleteWrite;

export interface ValueSetWrite {
  kind: "value";
  op: "set";
  namespace: string;
  key: string;
  value: unknown;
}

export interface ValueDeleteWrite {
  kind: "value";
  op: "delete";
  namespace: string;
  key: string;
}

export interface ListAppendWrite {
  kind: "list";
  op: "append";
  namespace: string;
  key: string;
  value: unknown;
}

export interface ListDeleteWrite {
  kind: "list";
  op: "delete";
  namespace: string;
  key: string;
}

/** One line of the append-only usage ledger. */
export interface UsageRow {
  id: string;
  seq: number;
  usage: Usage;
  /** The entry that caused the usage; it need not exist yet. */
  entryId?: string;
  /** A correction rather than a call. */
  adjustment: boolean;
  details?: JsonValue;
}

/** A write with its place in the session, as an archive keeps it. */
export type CommittedWrite =
  | (Entry & { kind: "entry" })
  // The time is given where an archive knows it; otherwise it is that of the commit.
  | (UsageRow & { kind: "usage"; timestamp?: number })
  | (ValueWrite & { seq: number })
  | (ListWrite & { seq: number });

export interface CommitResult {
  /** `seq` of the first write; of the next commit's first write if this one was empty. */
  firstSeq: number;
  /** One per write, in order. */
  seqs: number[];
  /** Milliseconds since the epoch. */
  timestamp: number;
  /** Totals of the session right after this commit. */
  stats: SessionStats;
}

export function insertEntry(entry: NewEntry): EntryWrite {
  return { kind: "entry", entry };
}

export function insertUsage(row: Omit<UsageRow, "seq">): UsageWrite {
  return { kind: "usage", row };
}

export function setValue<T>(address: Value<T>, next: NoInfer<T>): ValueSetWrite {
  return { kind: "value", op: "set", ...place(address), value: next };
}

export function deleteValue<T>(address: Value<T>): ValueDeleteWrite {
  return { kind: "value", op: "delete", ...place(address) };
}

export function appendList<T>(address: ValueList<T>, element: NoInfer<T>): ListAppendWrite {
  return { kind: "list", op: "append", ...place(address), value: element };
}

export function deleteList<T>(address: ValueList<T>): ListDeleteWrite {
  return { kind: "list", op: "delete", ...place(address) };
}

/** Numbers the writes of a commit from `firstSeq` on and dates its entries. */
export function placeWrites(writes: readonly Write[], firstSeq: number, timestamp: number): CommittedWrite[] {
  return writes.map((write, index): CommittedWrite => {
    const seq = firstSeq + index;
    switch (write.kind) {
      case "entry":
        return { kind: "entry", ...write.entry, seq, timestamp };
      case "usage":
        return { kind: "usage", ...write.row, seq };
      default:
        return { ...write, seq };
    }
  });
}

/**
 * Checks all that can be known without the session: texts, usage, ids that occur twice.
 * The first offending write decides. Whether parents exist is for the session to say.
 *
 * @throws InvalidTextError, InvalidUsageError, InvalidWriteError, DuplicateIdError
 */
export function assertWrites(writes: readonly Write[]): void {
  if (!Array.isArray(writes)) throw new InvalidWriteError(0, "is missing", "pass an array of writes");
  const taken = new Set<string>();
  writes.forEach((write, index) => {
    switch (write?.kind) {
      case "entry":
        assertObject(write.entry, "entry", index);
        assertEntry(write.entry, index);
        assertUnused(write.entry.id, taken);
        return;
      case "usage":
        assertObject(write.row, "row", index);
        assertText("usage id", write.row.id, { maxBytes: TEXT_LIMITS.id, empty: true });
        if (write.row.entryId !== undefined) assertEntryId("entry id of a usage row", write.row.entryId);
        assertUsage(write.row.id, write.row.usage);
        assertUnused(write.row.id, taken);
        return;
      case "value":
      case "list":
        assertAddress(write.namespace, write.key);
        assertOperation(write, index);
        return;
      default:
        throw new InvalidWriteError(index, "has an unknown kind", "use `entry`, `usage`, `value` or `list`");
    }
  });
}

const ENTRY_TYPES: ReadonlySet<string> = new Set(["message", "compaction", "branch_summary", "custom"]);

function assertEntry(entry: NewEntry, index: number): void {
  assertEntryId("entry id", entry.id);
  if (entry.parentId !== null) assertEntryId("parent id", entry.parentId);
  if (!ENTRY_TYPES.has(entry.type)) {
    throw new InvalidWriteError(
      index,
      "has an unknown entry type",
      `use one of ${[...ENTRY_TYPES].join(", ")}`,
    );
  }
  if (entry.customType !== undefined || entry.type === "custom") assertCustomType(entry.customType as string);
  if (entry.type === "message") assertObject(entry.message, "entry.message", index);
}

function assertObject(part: unknown, name: string, index: number): void {
  if (typeof part !== "object" || part === null) {
    throw new InvalidWriteError(index, `has no \`${name}\``, "pass an object");
  }
}

function assertUnused(id: string, taken: Set<string>): void {
  if (taken.has(id)) throw new DuplicateIdError(id);
  taken.add(id);
}

function assertOperation(write: ValueWrite | ListWrite, index: number): void {
  const allowed = write.kind === "value" ? ["set", "delete"] : ["append", "delete"];
  if (!allowed.includes(write.op)) {
    throw new InvalidWriteError(index, "has an unknown operation", `use one of ${allowed.join(", ")}`);
  }
}

function place(address: Address): { namespace: string; key: string } {
  return { namespace: address.namespace, key: address.key };
}
