import { branchTips } from "../contract/address.ts";
import type { Entry } from "../contract/entry.ts";
import { assertWrites, type CommittedWrite, type ValueSetWrite } from "../contract/write.ts";
import type { ImportedWrite } from "../postgres/import-session.ts";
import { type ArchiveFile, fileChanged } from "./archive-file.ts";
import { Column } from "./column.ts";
import { LineFault, quoted } from "./errors.ts";
import type { V4Header } from "./header.ts";
import { IdIndex } from "./id-index.ts";
import { importedUsage } from "./imported-usage.ts";
import { JournalWriter } from "./journal.ts";
import { memberPlaces, type Place } from "./json-bytes.ts";
import { isJsonObject, isSafeInteger, type JsonObject } from "./json-object.ts";
import { Lender, lentMember } from "./lending.ts";
import type { LineFaults } from "./line-faults.ts";
import { assertShallow, jsonOf, type Line, LineReader } from "./line-reader.ts";
import { type ArchiveReplay, type OnRead, type ReplayEnd, ReplayStep } from "./replay.ts";
import { unplaced } from "./unplaced.ts";

/** A format-4 file: a header, then one transaction per line, which are placed writes already. */
export class V4Replay implements ArchiveReplay {
  readonly journal = new JournalWriter();
  readonly #file: ArchiveFile;
  readonly #header: V4Header;
  readonly #reader: LineReader;
  readonly #faults: LineFaults;
  readonly #state: V4State;
  #digest: { sha256: string; bytes: number } | undefined;
  #tornBytes = 0;

  constructor(
    file: ArchiveFile,
    header: V4Header,
    { faults, onRead }: { faults: LineFaults; onRead: OnRead },
  ) {
    this.#file = file;
    this.#header = header;
    this.#reader = new LineReader(file, { onRead });
    this.#faults = faults;
    this.#state = new V4State(faults);
  }

  /** An unterminated last line is left out: its commit was never confirmed. */
  async *steps(): AsyncGenerator<ReplayStep> {
    for await (const lines of this.#reader.blocks()) {
      const step = new ReplayStep();
      for (const line of lines) {
        if (!line.terminated) this.#tornBytes = line.bytes.length;
        const writes = line.terminated ? this.#writes(line) : [];
        for (const write of this.#lent(writes, line)) step.add(write, line.number);
        step.bytes += line.bytes.length;
      }
      yield step;
    }
    this.#digest = this.#reader.digest();
  }

  end(): ReplayEnd {
    if (this.#digest === undefined) throw new Error("the archive was not read to its end");
    return {
      nextSeq: Math.max(this.#state.nextSeq, this.#header.nextSeq),
      archive: { format: 4, ...this.#digest },
      tornBytes: this.#tornBytes,
      unusable: this.#faults.found,
    };
  }

  #writes({ number: line, bytes }: Line): (CommittedWrite | undefined)[] {
    if (line === this.#header.line) {
      if (!bytes.equals(this.#header.bytes)) throw fileChanged(this.#file.path);
      return [];
    }
    try {
      if (line < this.#header.line) {
        throw new LineFault("invalid_record", "the line stands before the session header");
      }
      const writes = parseTransaction(bytes);
      // A lenient reading must know now what cannot be stored: later transactions rely on this one.
      if (this.#faults.isLenient) assertWrites(writes.map(unplaced));
      return this.#state.admit(writes, line);
    } catch (error) {
      this.#faults.add(line, error);
      return [];
    }
  }

  #lent(writes: readonly (CommittedWrite | undefined)[], line: Line): ImportedWrite[] {
    const lender = new Lender(this.journal, line.bytes);
    const places = new TransactionPlaces(line.bytes);
    const lent = writes.flatMap((write, index) => {
      if (write?.kind !== "entry") return write ?? [];
      return lender.lent(write, places.of(write, index));
    });
    lender.finish(line);
    return lent;
  }
}

/** Where a transaction spells the payloads of its entries. */
class TransactionPlaces {
  readonly #line: Buffer;
  readonly #places = new Map<string, (Place | undefined)[]>();

  constructor(line: Buffer) {
    this.#line = line;
  }

  /** Of the write at this position. */
  of(entry: Entry, index: number): Place | undefined {
    const member = lentMember(entry);
    if (member === undefined || !isWholePayload(entry, member)) return undefined;
    const places = this.#places.get(member) ?? memberPlaces(this.#line, member);
    this.#places.set(member, places);
    return places[index];
  }
}

const BESIDE_PAYLOAD = new Set(["kind", "id", "parentId", "seq", "timestamp", "type", "customType"]);

function isWholePayload(entry: Entry, member: string): boolean {
  return Object.keys(entry).every((name) => name === member || BESIDE_PAYLOAD.has(name));
}

/** What of the session has to be remembered to judge the next transaction. */
class V4State {
  readonly #faults: LineFaults;
  readonly #ids = new IdIndex();
  readonly #isEntry = new Column((length) => new Uint8Array(length));
  nextSeq = 1;

  constructor(faults: LineFaults) {
    this.#faults = faults;
  }

  /**
   * @returns the writes as they can be stored, `undefined` in the place of one that cannot
   * @throws LineFault; then nothing of it is remembered
   */
  admit(writes: readonly CommittedWrite[], line: number): (CommittedWrite | undefined)[] {
    const nextSeq = this.#assertOrder(writes);
    const entries = this.#assertNewIds(writes);
    const usable = writes.map((write) => this.#usable(write, entries, line));
    for (const write of writes) if (write.kind === "entry" || write.kind === "usage") this.#take(write);
    this.nextSeq = nextSeq;
    return usable;
  }

  /** @returns the least seq of the next transaction */
  #assertOrder(writes: readonly CommittedWrite[]): number {
    return writes.reduce((least, { seq }) => {
      if (seq >= least) return seq + 1;
      const reason = `the seq ${seq} does not come after that of the write before, ${least - 1}`;
      throw new LineFault("invalid_sequence", reason);
    }, this.nextSeq);
  }

  /** @returns seq by id, of the entries in the transaction */
  #assertNewIds(writes: readonly CommittedWrite[]): Map<string, number> {
    const entries = new Map<string, number>();
    const taken = new Set<string>();
    for (const write of writes) {
      if (write.kind !== "entry" && write.kind !== "usage") continue;
      if (taken.has(write.id) || this.#ids.has(write.id)) {
        const reason = `the id ${quoted(write.id)} is that of an earlier entry or usage row`;
        throw new LineFault("duplicate_id", reason);
      }
      taken.add(write.id);
      if (write.kind === "entry") entries.set(write.id, write.seq);
    }
    return entries;
  }

  /** A lenient reading makes an entry without its parent a root, and leaves out a tip that is not there. */
  #usable(write: CommittedWrite, own: Map<string, number>, line: number): CommittedWrite | undefined {
    const isKnown = (id: string) => this.#isEntryId(id) || (own.get(id) ?? write.seq) < write.seq;
    if (write.kind === "entry" && write.parentId !== null && !isKnown(write.parentId)) {
      const reason = `the parent ${quoted(write.parentId)} is no entry before this one`;
      this.#refuse(line, new LineFault("missing_parent", reason));
      return { ...write, parentId: null };
    }
    if (this.#faults.isLenient && isTip(write) && typeof write.value === "string" && !isKnown(write.value)) {
      const reason = `the tip ${quoted(write.value)} of a branch is no entry before it`;
      this.#refuse(line, new LineFault("missing_reference", reason));
      return undefined;
    }
    return write;
  }

  #refuse(line: number, fault: LineFault): void {
    if (!this.#faults.isLenient) throw fault;
    this.#faults.add(line, fault);
  }

  #isEntryId(id: string): boolean {
    const number = this.#ids.find(id);
    return number !== -1 && this.#isEntry.at(number) === 1;
  }

  #take({ id, kind }: CommittedWrite & { kind: "entry" | "usage" }): void {
    this.#ids.add(id);
    this.#isEntry.push(kind === "entry" ? 1 : 0);
  }
}

function isTip(write: CommittedWrite): write is ValueSetWrite & { seq: number } {
  return write.kind === "value" && write.op === "set" && write.namespace === branchTips().namespace;
}

/** @throws LineFault */
function parseTransaction(bytes: Buffer): CommittedWrite[] {
  const json = jsonOf(bytes);
  assertShallow(bytes);
  return (Array.isArray(json) ? json : [json]).map(parseWrite);
}

function parseWrite(json: unknown): CommittedWrite {
  if (!isJsonObject(json)) throw invalid("a write is no JSON object");
  if (!isSafeInteger(json["seq"], 1)) throw invalid("the `seq` of a write is no positive whole number");
  switch (json["kind"]) {
    case "entry":
      return parseEntry(json);
    case "usage":
      return parseUsage(json);
    case "value":
      return parseOperation(json, "set");
    case "list":
      return parseOperation(json, "append");
    default:
      throw new LineFault("unsupported_record", "a write of unknown kind is not supported yet");
  }
}

const ENTRY_TYPES: readonly unknown[] = ["message", "compaction", "branch_summary", "custom"];

function parseEntry(json: JsonObject): CommittedWrite {
  const { id, parentId, timestamp, type, customType, message } = json;
  if (typeof id !== "string") throw invalid("the `id` of an entry is not a string");
  if (typeof parentId !== "string" && parentId !== null) {
    throw invalid("the `parentId` of an entry is neither a string nor null");
  }
  if (!isSafeInteger(timestamp, 0)) throw invalid("the `timestamp` of an entry is not in milliseconds");
  if (!ENTRY_TYPES.includes(type)) {
    throw new LineFault("unsupported_record", "an entry of unknown type is not supported yet");
  }
  if (customType !== undefined ? typeof customType !== "string" : type === "custom") {
    throw invalid("the `customType` of an entry is not a string");
  }
  if (type === "message" && !isJsonObject(message))
    throw invalid("the `message` of an entry is no JSON object");
  return json as unknown as CommittedWrite;
}

function parseUsage(json: JsonObject): CommittedWrite {
  const { id, entryId, adjustment } = json;
  if (typeof id !== "string") throw invalid("the `id` of a usage row is not a string");
  if (entryId !== undefined && typeof entryId !== "string") {
    throw invalid("the `entryId` of a usage row is not a string");
  }
  const usage = importedUsage(json["usage"]);
  if (usage === undefined) throw new LineFault("invalid_usage", "a usage row has no `usage`");
  return { ...json, usage, adjustment: adjustment === true } as unknown as CommittedWrite;
}

function parseOperation(json: JsonObject, setting: "set" | "append"): CommittedWrite {
  const { kind, op, namespace, key, value } = json;
  if (op !== setting && op !== "delete") {
    throw new LineFault("unsupported_record", `an unknown operation on a ${kind} is not supported yet`);
  }
  if (typeof namespace !== "string" || typeof key !== "string")
    throw invalid(`the address of a ${kind} is no text`);
  if (op === setting && value === undefined) throw invalid(`a ${kind} has no \`value\``);
  return json as unknown as CommittedWrite;
}

function invalid(reason: string): LineFault {
  return new LineFault("invalid_record", reason);
}
