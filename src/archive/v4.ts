import type { CommittedWrite } from "../contract/write.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { Column } from "./column.ts";
import { LineFault, located, quoted } from "./errors.ts";
import type { V4Header } from "./header.ts";
import { IdIndex } from "./id-index.ts";
import { importedUsage } from "./imported-usage.ts";
import { isJsonObject, isSafeInteger, type JsonObject } from "./json-object.ts";
import { jsonOf, LineReader } from "./line-reader.ts";
import type { ArchiveReplay, ReplayedWrite } from "./replay.ts";
import type { OnRead } from "./v3.ts";

/** A format-4 file: a header, then one transaction per line, which are placed writes already. */
export class V4Archive {
  readonly #file: ArchiveFile;
  readonly #header: V4Header;
  readonly #onRead: OnRead;

  constructor(file: ArchiveFile, header: V4Header, onRead: OnRead) {
    this.#file = file;
    this.#header = header;
    this.#onRead = onRead;
  }

  /** An unterminated last line is left out: its commit was never confirmed. */
  replay(): ArchiveReplay {
    const reader = new LineReader(this.#file, { onRead: this.#onRead });
    const state = new V4State();
    return {
      writes: () => this.#writes(reader, state),
      end: () => ({
        nextSeq: Math.max(state.nextSeq, this.#header.nextSeq),
        archive: { format: 4, ...reader.digest() },
      }),
    };
  }

  async *#writes(reader: LineReader, state: V4State): AsyncGenerator<ReplayedWrite> {
    const { path } = this.#file;
    for await (const line of reader) {
      if (line.number === 1 || !line.terminated) continue;
      const writes = located({ path, line: line.number }, () => state.admit(parseTransaction(line.bytes)));
      const bytes = line.bytes.length / writes.length;
      for (const write of writes) yield { write, line: line.number, bytes };
    }
  }
}

/** What of the session has to be remembered to judge the next transaction. */
class V4State {
  readonly #ids = new IdIndex();
  readonly #isEntry = new Column((length) => new Uint8Array(length));
  nextSeq = 1;

  /** @throws LineFault */
  admit(writes: CommittedWrite[]): CommittedWrite[] {
    for (const write of writes) {
      if (write.seq < this.nextSeq) {
        throw new LineFault(
          "invalid_sequence",
          `the seq ${write.seq} does not come after that of the write before, ${this.nextSeq - 1}`,
        );
      }
      this.nextSeq = write.seq + 1;
      if (write.kind === "entry") this.#assertParent(write.parentId);
      if (write.kind === "entry" || write.kind === "usage") this.#take(write.id, write.kind === "entry");
    }
    return writes;
  }

  #assertParent(parentId: string | null): void {
    if (parentId === null) return;
    const number = this.#ids.find(parentId);
    if (number !== -1 && this.#isEntry.at(number) === 1) return;
    throw new LineFault("missing_parent", `the parent ${quoted(parentId)} is no entry before this one`);
  }

  #take(id: string, isEntry: boolean): void {
    if (!this.#ids.add(id)) {
      throw new LineFault("duplicate_id", `the id ${quoted(id)} is that of an earlier entry or usage row`);
    }
    this.#isEntry.push(isEntry ? 1 : 0);
  }
}

/** @throws LineFault */
function parseTransaction(bytes: Buffer): CommittedWrite[] {
  const json = jsonOf(bytes);
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
