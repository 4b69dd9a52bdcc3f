import { type Address, assertAddress, type Value, type ValueList } from "./address.ts";
import type { Entry, NewEntry } from "./entry.ts";
import { DuplicateIdError, InvalidWriteError } from "./errors.ts";
import type { JsonValue } from "./json.ts";
import { assertCustomType, assertEntryId, assertText, TEXT_LIMITS } from "./text.ts";
import { assertUsage, type SessionStats, type Usage } from "./usage.ts";

/**
 * One change of a session; a commit makes several at once. Build one with {@link insertEntry}, {@link insertUsage},
 * {@link setValue}, {@link deleteValue}, {@link appendList} or {@link deleteList}.
 */
export type Write = EntryWrite | UsageWrite | ValueWrite | ListWrite;

/** Adds an entry to the tree. */
export interface EntryWrite {
  kind: "entry";
  /** Its parent must exist: in the session, or earlier in the same commit. */
  entry: NewEntry;
}

/** Adds a row to the usage ledger. */
export interface UsageWrite {
  kind: "usage";
  /** The commit adds `seq`. */
  row: Omit<UsageRow, "seq">;
}

/** Sets or deletes the current value at an address. */
export type ValueWrite = ValueSetWrite | ValueDeleteWrite;
/** Appends to a list or deletes it whole. */
export type ListWrite = ListAppendWrite | ListDeleteWrite;

/** Sets or overwrites a value. Of several writes to one value in a commit, the last counts. */
export interface ValueSetWrite {
  kind: "value";
  op: "set";
  /** 1 to 256 bytes of UTF-8. */
  namespace: string;
  /** 0 to 1,024 bytes of UTF-8. */
  key: string;
  /** Any JSON value, `null` included; `undefined` members vanish as in `JSON.stringify`. */
  value: unknown;
}

/** Deletes a value; nothing happens if none is set. */
export interface ValueDeleteWrite {
  kind: "value";
  op: "delete";
  /** 1 to 256 bytes of UTF-8. */
  namespace: string;
  /** 0 to 1,024 bytes of UTF-8. */
  key: string;
}

/** Appends one element to a list. */
export interface ListAppendWrite {
  kind: "list";
  op: "append";
  /** 1 to 256 bytes of UTF-8. */
  namespace: string;
  /** 0 to 1,024 bytes of UTF-8. */
  key: string;
  /** Any JSON value, `null` included; `undefined` members vanish as in `JSON.stringify`. */
  value: unknown;
}

/** Deletes a list with all elements appended before, in this commit or earlier. */
export interface ListDeleteWrite {
  kind: "list";
  op: "delete";
  /** 1 to 256 bytes of UTF-8. */
  namespace: string;
  /** 0 to 1,024 bytes of UTF-8. */
  key: string;
}

/** One row of the append-only usage ledger. */
export interface UsageRow {
  /** Opaque, up to 512 bytes of UTF-8; unique among the entries and usage rows of its session. */
  id: string;
  /** Position of the write in its session; strictly increasing, with gaps. Assigned by the commit. */
  seq: number;
  /** What was consumed. It may be negative, as in a correction. */
  usage: Usage;
  /**
   * The entry that caused the usage, up to 512 bytes of UTF-8; it need not exist yet. Reports take provider and model
   * from it.
   */
  entryId?: string;
  /** A correction rather than a call: it counts in sums, but not as a call. */
  adjustment: boolean;
  /** Data of the writer, any JSON value; never interpreted here. */
  details?: JsonValue;
}

/** A write with its place in the session, as an importer hands it to the database. */
export type CommittedWrite =
  | (Entry & { kind: "entry" })
  // The time is given where an archive knows it; otherwise it is that of the commit.
  | (UsageRow & { kind: "usage"; timestamp?: number })
  | (ValueWrite & { seq: number })
  | (ListWrite & { seq: number });

/** What a commit did. */
export interface CommitResult {
  /** `seq` of the first write; for an empty commit, of the first write of the next commit. */
  firstSeq: number;
  /** `seq` of each write, in their order. */
  seqs: number[];
  /** When it was committed, by this process's clock, in milliseconds since the epoch. */
  timestamp: number;
  /** Totals of the session right after this commit. */
  stats: SessionStats;
}

/** A write that adds an entry to the tree. Nothing is checked before the commit. */
export function insertEntry(entry: NewEntry): EntryWrite {
  return { kind: "entry", entry };
}

/** A write that adds a row to the usage ledger. Nothing is checked before the commit. */
export function insertUsage(row: Omit<UsageRow, "seq">): UsageWrite {
  return { kind: "usage", row };
}

/** A write that sets or overwrites a value: any JSON value, `null` included. */
export function setValue<T>(address: Value<T>, next: NoInfer<T>): ValueSetWrite {
  return { kind: "value", op: "set", ...place(address), value: next };
}

/** A write that deletes a value, if it is set. */
export function deleteValue<T>(address: Value<T>): ValueDeleteWrite {
  return { kind: "value", op: "delete", ...place(address) };
}

/** A write that appends one element to a list: any JSON value, `null` included. */
export function appendList<T>(address: ValueList<T>, element: NoInfer<T>): ListAppendWrite {
  return { kind: "list", op: "append", ...place(address), value: element };
}

/** A write that deletes a list with all its elements. */
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
    assertWrite(write, index);
    if (write.kind === "entry") assertUnused(write.entry.id, taken);
    if (write.kind === "usage") assertUnused(write.row.id, taken);
  });
}

/** What {@link assertWrites} checks of each write; `index` is its position. */
export function assertWrite(write: Write, index: number): void {
  switch (write?.kind) {
    case "entry":
      assertObject(write.entry, "entry", index);
      assertEntry(write.entry, index);
      return;
    case "usage":
      assertObject(write.row, "row", index);
      assertText("usage id", write.row.id, { maxBytes: TEXT_LIMITS.id, empty: true });
      if (write.row.entryId !== undefined) assertEntryId("entry id of a usage row", write.row.entryId);
      assertUsage(write.row.id, write.row.usage);
      return;
    case "value":
    case "list":
      assertAddress(write.namespace, write.key);
      assertOperation(write, index);
      return;
    default:
      throw new InvalidWriteError(index, "has an unknown kind", "use `entry`, `usage`, `value` or `list`");
  }
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
