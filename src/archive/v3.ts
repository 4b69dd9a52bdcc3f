import { createHash } from "node:crypto";
import {
  branchTip,
  entryLabel,
  laneConfig,
  laneState,
  sessionName,
  type Value,
} from "../contract/address.ts";
import { idleLaneState, type LaneConfiguration, type ThinkingLevel } from "../contract/lane.ts";
import type { AgentMessage } from "../contract/message.ts";
import { TEXT_LIMITS } from "../contract/text.ts";
import { OPTIONAL_TOKEN_FIELDS, type Usage } from "../contract/usage.ts";
import { type CommittedWrite, setValue } from "../contract/write.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { LineFault, located, quoted } from "./errors.ts";
import { importedUsage, isZeroUsage } from "./imported-usage.ts";
import { fileChanged, type Line, LineReader, LineWindow, MAX_LINE_BYTES } from "./line-reader.ts";
import type { ArchiveReplay, ReplayedWrite } from "./replay.ts";
import { contextMessage, entryOf } from "./v3-entry.ts";
import { NONE, V3Index } from "./v3-index.ts";
import {
  isRetained,
  missingReference,
  parseV3Record,
  timestampOf,
  usageOf,
  type V3Compaction,
  type V3Record,
  type V3RetainedRecord,
} from "./v3-record.ts";

export type OnRead = (bytes: number) => void;

/** How often a file is read: for its structure, for its entries, for its usage. */
export const V3_PASSES = 3;

/**
 * A version 3 file as format-4 writes: its entries in file order, then the values that its other records
 * amount to, then one usage row for each record that spent something.
 */
export class V3Archive {
  readonly #file: ArchiveFile;
  readonly #index: V3Index;
  readonly #digest: { sha256: string; bytes: number };
  readonly #onRead: OnRead;

  private constructor(
    file: ArchiveFile,
    index: V3Index,
    digest: { sha256: string; bytes: number },
    onRead: OnRead,
  ) {
    this.#file = file;
    this.#index = index;
    this.#digest = digest;
    this.#onRead = onRead;
  }

  /**
   * Reads the structure of the file. An unterminated last line is left out: its writer was interrupted.
   *
   * @throws ArchiveError
   */
  static async read(file: ArchiveFile, onRead: OnRead): Promise<V3Archive> {
    const ledger = new LedgerSelection();
    const reader = new LineReader(file, { onRead });
    let index = new V3Index(0);
    for await (const line of reader) {
      if (!line.terminated) continue;
      const length = line.bytes.length + 1;
      if (line.number === 1) {
        index = new V3Index(length);
        continue;
      }
      located({ path: file.path, line: line.number }, () => {
        const record = parseV3Record(line.bytes);
        index.add(record, { length, isSpending: ledger.select(record) });
      });
    }
    return new V3Archive(file, index, reader.digest(), onRead);
  }

  /** The same writes every time, from the bytes that `read` has seen. */
  replay(): ArchiveReplay {
    const replay = new V3Replay(this.#file, this.#index, this.#digest, this.#onRead);
    return {
      writes: () => replay.writes(),
      end: () => ({ nextSeq: replay.nextSeq, archive: { format: 3, ...this.#digest } }),
    };
  }
}

class V3Replay {
  readonly #file: ArchiveFile;
  readonly #index: V3Index;
  readonly #digest: { sha256: string; bytes: number };
  readonly #onRead: OnRead;
  readonly #window: LineWindow;
  nextSeq = 1;

  constructor(file: ArchiveFile, index: V3Index, digest: { sha256: string; bytes: number }, onRead: OnRead) {
    this.#file = file;
    this.#index = index;
    this.#digest = digest;
    this.#onRead = onRead;
    this.#window = new LineWindow(file);
  }

  async *writes(): AsyncGenerator<ReplayedWrite> {
    yield* this.#entries();
    yield* this.#values();
    if (this.#index.spendingCount > 0) yield* this.#usage();
  }

  async *#entries(): AsyncGenerator<ReplayedWrite> {
    for await (const { record, number, line } of this.#records()) {
      if (!isRetained(record)) continue;
      const tail = record.type === "compaction" ? await this.#retainedTail(record, number) : NO_TAIL;
      const place = {
        parentId: this.#index.entryId(this.#index.parent(number)),
        seq: this.nextSeq++,
        retainedTail: tail.messages,
      };
      const write = this.#at(number, () => entryOf(record as V3RetainedRecord, place, this.#index));
      yield { write, line: line.number, bytes: line.bytes.length + tail.bytes };
    }
  }

  /** What a compaction kept: the messages from the first kept record to the one before the compaction. */
  async #retainedTail(compaction: V3Compaction, number: number): Promise<RetainedTail> {
    const tail: RetainedTail = { messages: [], bytes: 0 };
    for (const kept of this.#at(number, () => this.#keptRecords(compaction, number))) {
      const message = this.#at(kept, contextMessage, await this.#record(kept), this.#index);
      if (message === undefined) continue;
      tail.messages.push(message);
      tail.bytes += this.#index.place(kept).length;
      if (tail.bytes > MAX_LINE_BYTES) this.#at(number, refuseTail);
    }
    return tail;
  }

  #keptRecords(compaction: V3Compaction, number: number): number[] {
    const firstKept = this.#index.ids.find(compaction.firstKeptEntryId);
    if (firstKept === NONE) throw missingReference("the first kept entry", compaction.firstKeptEntryId);
    const kept: number[] = [];
    for (let at = this.#index.parent(number); at !== NONE; at = this.#index.parent(at)) {
      kept.push(at);
      if (at === firstKept) return kept.reverse();
    }
    const id = quoted(compaction.firstKeptEntryId);
    throw new LineFault(
      "missing_reference",
      `the first kept entry ${id} is not on the branch of the compaction`,
    );
  }

  async *#values(): AsyncGenerator<ReplayedWrite> {
    const name = await this.#name();
    if (name !== undefined) yield this.#value(sessionName, name.text, name.number);
    for (const [target, { label, number }] of await this.#labels()) {
      yield this.#value(entryLabel(target), label, number);
    }
    const last = this.#index.size - 1;
    yield this.#value(branchTip("main"), last < 0 ? null : this.#index.entryId(last), last);
    const configuration = await this.#configuration(last);
    if (configuration === undefined) return;
    yield this.#value(laneConfig("main"), configuration, last);
    yield this.#value(laneState("main"), idleLaneState(), last);
  }

  /** The last name counts, and an empty one takes the name away. */
  async #name(): Promise<{ text: string; number: number } | undefined> {
    for (let number = this.#index.size - 1; number >= 0; number--) {
      if (this.#index.type(number) !== "session_info") continue;
      const { name } = (await this.#record(number)) as V3Record & { type: "session_info" };
      return name ? { text: name, number } : undefined;
    }
    return undefined;
  }

  /** By labelled entry, in the order in which they were first labelled. */
  async #labels(): Promise<Map<string, { label: string; number: number }>> {
    const labels = new Map<string, { label: string; number: number }>();
    for (let number = 0; number < this.#index.size; number++) {
      if (this.#index.type(number) !== "label") continue;
      const { targetId, label } = (await this.#record(number)) as V3Record & { type: "label" };
      const target = this.#at(number, () => this.#index.resolve("the labelled entry", targetId));
      if (target === null) continue;
      if (label) labels.set(target, { label, number });
      else labels.delete(target);
    }
    return labels;
  }

  /** The nearest change of each kind above the tip. Without a model or a thinking level there is no lane. */
  async #configuration(tip: number): Promise<LaneConfiguration | undefined> {
    const wanted = new Set<V3Record["type"]>([
      "model_change",
      "thinking_level_change",
      "active_tools_change",
    ]);
    let model: LaneConfiguration["model"] | undefined;
    let thinkingLevel: ThinkingLevel | undefined;
    let activeToolNames: string[] = [];
    for (let at = tip; at !== NONE && wanted.size > 0; at = this.#index.parent(at)) {
      if (!wanted.delete(this.#index.type(at))) continue;
      const record = await this.#record(at);
      if (record.type === "model_change") model = { provider: record.provider, modelId: record.modelId };
      if (record.type === "thinking_level_change") thinkingLevel = record.thinkingLevel as ThinkingLevel;
      if (record.type === "active_tools_change")
        activeToolNames = this.#at(at, toolNames, record.activeToolNames);
    }
    return model === undefined || thinkingLevel === undefined
      ? undefined
      : { model, thinkingLevel, activeToolNames };
  }

  async *#usage(): AsyncGenerator<ReplayedWrite> {
    for await (const { record, number, line } of this.#records((record) => this.#index.isSpending(record))) {
      const usage = this.#at(number, importedUsage, usageOf(record)) as Usage;
      const write: CommittedWrite = {
        kind: "usage",
        id: usageId(record.id, this.#index),
        seq: this.nextSeq++,
        usage,
        entryId: record.id,
        adjustment: false,
        timestamp: timestampOf(record as V3RetainedRecord),
        details: { source: "v3-import" },
      };
      yield { write, line: line.number, bytes: USAGE_ROW_BYTES };
    }
  }

  /** Reads the file once more and proves, at its end, that it is still the one that was indexed. */
  async *#records(
    isWanted: (number: number) => boolean = () => true,
  ): AsyncGenerator<{ record: V3Record; number: number; line: Line }> {
    const reader = new LineReader(this.#file, { end: this.#digest.bytes, onRead: this.#onRead });
    for await (const line of recordLines(reader)) {
      const number = line.number - 2;
      if (number >= this.#index.size) throw fileChanged(this.#file.path);
      if (isWanted(number)) yield { record: this.#checked(number, line.bytes), number, line };
    }
    if (reader.digest().sha256 !== this.#digest.sha256) throw fileChanged(this.#file.path);
  }

  async #record(number: number): Promise<V3Record> {
    const { offset, length } = this.#index.place(number);
    return this.#checked(number, await this.#window.read(offset, length));
  }

  #checked(number: number, bytes: Buffer): V3Record {
    const record = this.#at(number, parseV3Record, bytes);
    if (record.id !== this.#index.ids.idAt(number) || record.type !== this.#index.type(number)) {
      throw fileChanged(this.#file.path);
    }
    return record;
  }

  #value<T>(address: Value<T>, value: NoInfer<T>, number: number): ReplayedWrite {
    const write = { ...setValue(address, value), seq: this.nextSeq++ };
    return { write, line: this.#index.line(number), bytes: VALUE_BYTES };
  }

  #at<TArguments extends unknown[], T>(
    number: number,
    work: (...args: TArguments) => T,
    ...args: TArguments
  ): T {
    return located({ path: this.#file.path, line: this.#index.line(number) }, () => work(...args));
  }
}

interface RetainedTail {
  messages: AgentMessage[];
  bytes: number;
}

const NO_TAIL: RetainedTail = { messages: [], bytes: 0 };

/** What these writes weigh in a chunk, roughly. */
const USAGE_ROW_BYTES = 400;
const VALUE_BYTES = 200;

async function* recordLines(reader: LineReader): AsyncGenerator<Line> {
  for await (const line of reader) {
    if (line.number > 1 && line.terminated) yield line;
  }
}

/** Chooses the records that get a usage row, in file order. */
class LedgerSelection {
  readonly #optionalFields = new Set<string>();

  /** All that spent something; of the others, those that first have an optional field, which then is in the sum. */
  select(record: V3Record): boolean {
    const usage = importedUsage(usageOf(record));
    if (usage === undefined) return false;
    const known = this.#optionalFields.size;
    for (const field of OPTIONAL_TOKEN_FIELDS) {
      if (usage[field] !== undefined) this.#optionalFields.add(field);
    }
    return this.#optionalFields.size > known || !isZeroUsage(usage);
  }
}

/** The same for the same file, and none of its entries'. */
function usageId(entryId: string, index: V3Index): string {
  const id = `${entryId}:usage`;
  const base = Buffer.byteLength(id) + COUNTER_BYTES <= TEXT_LIMITS.id ? id : `usage:${sha256(entryId)}`;
  if (!index.ids.has(base)) return base;
  for (let counter = 2; ; counter++) {
    if (!index.ids.has(`${base}:${counter}`)) return `${base}:${counter}`;
  }
}

const COUNTER_BYTES = 12;

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The tail becomes part of one entry, which is subject to the same limits as a line. */
function refuseTail(): never {
  throw new LineFault("line_too_long", `the compaction keeps messages of more than ${MAX_LINE_BYTES} bytes`);
}

function toolNames(names: unknown): string[] {
  if (!Array.isArray(names))
    throw new LineFault("invalid_record", "the `activeToolNames` of the record are no list");
  return [...names];
}
