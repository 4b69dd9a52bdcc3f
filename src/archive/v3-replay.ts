import {
  branchTip,
  entryLabel,
  laneConfig,
  laneState,
  sessionName,
  type Value,
} from "../contract/address.ts";
import type { Entry } from "../contract/entry.ts";
import { idleLaneState, type LaneConfiguration, type ThinkingLevel } from "../contract/lane.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { Usage } from "../contract/usage.ts";
import { type CommittedWrite, setValue } from "../contract/write.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { LineFault, located, quoted } from "./errors.ts";
import { importedUsage } from "./imported-usage.ts";
import { JournalWriter } from "./journal.ts";
import { memberPlaces, type Place } from "./json-bytes.ts";
import { usageId } from "./ledger-selection.ts";
import { Lender, lentMember } from "./lending.ts";
import type { LineFaults } from "./line-faults.ts";
import { fileChanged, type Line, LineReader, LineWindow, MAX_LINE_BYTES } from "./line-reader.ts";
import type { ArchiveReplay, ReplayEnd, ReplayStep } from "./replay.ts";
import type { OnRead, V3Structure } from "./v3.ts";
import { V3Decoder } from "./v3-decoder.ts";
import { contextMessage, entryOf } from "./v3-entry.ts";
import { NONE, type V3Index, type V3Kind } from "./v3-index.ts";
import {
  missingReference,
  timestampOf,
  usageOf,
  type V3BranchSummary,
  type V3Compaction,
  type V3Record,
  type V3RetainedRecord,
  type V3Usage,
  v3Record,
} from "./v3-record.ts";

/** Reads a version 3 file whose structure is known, for its entries, values and usage. */
export class V3Replay implements ArchiveReplay {
  readonly journal = new JournalWriter();
  readonly #file: ArchiveFile;
  readonly #structure: V3Structure;
  readonly #index: V3Index;
  readonly #decoder: V3Decoder;
  readonly #faults: LineFaults;
  readonly #onRead: OnRead;
  readonly #window: LineWindow;
  #nextSeq = 1;

  constructor(file: ArchiveFile, structure: V3Structure, faults: LineFaults, onRead: OnRead) {
    this.#file = file;
    this.#structure = structure;
    this.#index = structure.index;
    this.#decoder = new V3Decoder(structure.header, structure.index);
    this.#faults = faults;
    this.#onRead = onRead;
    this.#window = new LineWindow(file);
  }

  async *steps(): AsyncGenerator<ReplayStep> {
    yield* this.#entries();
    yield* this.#values();
    if (this.#index.spendingCount > 0) yield* this.#usage();
  }

  end(): ReplayEnd {
    const { header, sha256, bytes, tornBytes } = this.#structure;
    return {
      nextSeq: this.#nextSeq,
      archive: { format: header.format, sha256, bytes },
      tornBytes,
      unusable: this.#faults.found,
    };
  }

  async *#entries(): AsyncGenerator<ReplayStep> {
    for await (const { line, number } of this.#lines()) {
      const lender = new Lender(this.journal, line.bytes);
      if (number !== NONE && this.#index.isRetained(number)) {
        const record = this.#checked(number, line.bytes) as V3RetainedRecord;
        const tail = record.type === "compaction" ? await this.#retainedTail(record, number) : NO_TAIL;
        const entry = entryOf(record, {
          parentId: this.#index.entryId(this.#index.parent(number)),
          seq: this.#nextSeq++,
          retainedTail: tail.messages,
          fromId: record.type === "branch_summary" ? this.#fromId(record, number) : null,
        });
        const payloadText = lender.payloadText(entry, this.#memberPlace(record, entry, line.bytes));
        const write = payloadText === undefined ? entry : { ...entry, payloadText };
        lender.finish(line);
        yield { writes: [write], line: line.number, bytes: line.bytes.length + tail.bytes };
      } else {
        lender.finish(line);
        yield { writes: [], line: line.number, bytes: line.bytes.length };
      }
    }
  }

  /** Where the line spells what the entry's payload holds. */
  #memberPlace(record: V3RetainedRecord, entry: Entry, line: Buffer): Place | undefined {
    const member = lentMember(entry);
    // The others are made from several fields.
    if (member === undefined || (record.type !== "message" && record.type !== "custom")) return undefined;
    const isRenamed =
      this.#structure.header.format < 3 && record.type === "message" && record.message.role === "custom";
    return isRenamed ? undefined : memberPlaces(line, member)[0];
  }

  /** What a compaction kept: the messages from the first kept record to the one before the compaction. */
  async #retainedTail(compaction: V3Compaction, number: number): Promise<RetainedTail> {
    const tail: RetainedTail = { messages: [], bytes: 0 };
    for (const kept of this.#try(number, () => this.#keptRecords(compaction, number)) ?? []) {
      const record = await this.#record(kept);
      const fromId = record?.type === "branch_summary" ? this.#fromId(record, kept) : null;
      const message = record === undefined ? undefined : contextMessage(record, fromId);
      if (message === undefined) continue;
      tail.messages.push(message);
      tail.bytes += this.#index.place(kept).length;
      if (tail.bytes > MAX_LINE_BYTES) this.#at(number, refuseTail);
    }
    return tail;
  }

  #keptRecords({ id, firstKeptEntryId }: V3Compaction, number: number): number[] {
    if (firstKeptEntryId === id) return [];
    const firstKept = this.#index.ids.find(firstKeptEntryId);
    if (firstKept === NONE) throw missingReference("the first kept entry", firstKeptEntryId);
    const kept: number[] = [];
    for (let at = this.#index.parent(number); at !== NONE; at = this.#index.parent(at)) {
      kept.push(at);
      if (at === firstKept) return kept.reverse();
    }
    const reason = `the first kept entry ${quoted(firstKeptEntryId)} is not on the branch of the compaction`;
    throw new LineFault("missing_reference", reason);
  }

  /** A summary of a branch that began above the first entry says "root" instead of null. */
  #fromId({ fromId }: V3BranchSummary, number: number): string | null {
    if (fromId === "root") return null;
    if (this.#faults.isLenient && typeof fromId !== "string") return null;
    // Nothing relies on that entry. Where pi takes a branch out into a file of its own, it leaves the other one behind.
    if (typeof fromId === "string" && !this.#index.ids.has(fromId)) return fromId;
    return this.#at(number, () => this.#index.resolve("the summarized entry", fromId));
  }

  async *#values(): AsyncGenerator<ReplayStep> {
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
      if (this.#index.kind(number) !== "session_info") continue;
      const { name } = (await this.#record(number)) as V3Record & { type: "session_info" };
      return name ? { text: name, number } : undefined;
    }
    return undefined;
  }

  /** By labelled entry, in the order in which they were first labelled. */
  async #labels(): Promise<Map<string, { label: string; number: number }>> {
    const labels = new Map<string, { label: string; number: number }>();
    for (let number = 0; number < this.#index.size; number++) {
      if (this.#index.kind(number) !== "label") continue;
      const { targetId, label } = (await this.#record(number)) as V3Record & { type: "label" };
      const target = this.#try(number, () => this.#index.resolve("the labelled entry", targetId)) ?? null;
      if (target === null) continue;
      if (label) labels.set(target, { label, number });
      else labels.delete(target);
    }
    return labels;
  }

  /** The nearest change of each kind above the tip. Without a model or a thinking level there is no lane. */
  async #configuration(tip: number): Promise<LaneConfiguration | undefined> {
    const wanted = new Set<V3Kind>(["model_change", "thinking_level_change", "active_tools_change"]);
    let model: LaneConfiguration["model"] | undefined;
    let thinkingLevel: ThinkingLevel | undefined;
    let activeToolNames: string[] = [];
    for (let at = tip; at !== NONE && wanted.size > 0; at = this.#index.parent(at)) {
      if (!wanted.delete(this.#index.kind(at))) continue;
      const record = await this.#record(at);
      if (record?.type === "model_change") model = { provider: record.provider, modelId: record.modelId };
      if (record?.type === "thinking_level_change") thinkingLevel = record.thinkingLevel as ThinkingLevel;
      if (record?.type === "active_tools_change")
        activeToolNames = this.#try(at, () => toolNames(record.activeToolNames)) ?? [];
    }
    return model === undefined || thinkingLevel === undefined
      ? undefined
      : { model, thinkingLevel, activeToolNames };
  }

  async *#usage(): AsyncGenerator<ReplayStep> {
    for await (const { line, number } of this.#lines()) {
      if (number === NONE || !this.#index.isSpending(number)) continue;
      const record = this.#checked(number, line.bytes) as V3RetainedRecord | V3Usage;
      const usage = this.#at(number, () => importedUsage(usageOf(record))) as Usage;
      const write: CommittedWrite = {
        kind: "usage",
        id: usageId(record, this.#index.ids),
        seq: this.#nextSeq++,
        usage,
        ...(record.type === "usage" ? {} : { entryId: record.id }),
        adjustment: false,
        timestamp: timestampOf(record),
        details: { source: "v3-import", ...(record.type === "usage" ? spender(record) : {}) },
      };
      yield { writes: [write], line: line.number, bytes: USAGE_ROW_BYTES };
    }
  }

  /**
   * Reads the file once more and proves, at its end, that it is still the one that was indexed. Of a line that is no
   * record, the number is {@link NONE}.
   */
  async *#lines(): AsyncGenerator<{ line: Line; number: number }> {
    const { bytes, sha256 } = this.#structure;
    const reader = new LineReader(this.#file, { end: bytes, onRead: this.#onRead });
    let next = 0;
    for await (const line of reader) {
      const isRecord = line.terminated && next < this.#index.size && line.number === this.#index.line(next);
      yield { line, number: isRecord ? next++ : NONE };
    }
    if (next < this.#index.size || reader.digest().sha256 !== sha256) throw fileChanged(this.#file.path);
  }

  /** `undefined` for an unusable one. */
  async #record(number: number): Promise<V3Record | undefined> {
    if (this.#index.kind(number) === "unusable") return undefined;
    const { offset, length } = this.#index.place(number);
    return this.#checked(number, await this.#window.read(offset, length));
  }

  #checked(number: number, bytes: Buffer): V3Record {
    const line = this.#index.line(number);
    const record = this.#at(number, () => v3Record(this.#decoder.decode(bytes, { number, line })));
    if (record?.id !== this.#index.ids.idAt(number) || record.type !== this.#index.kind(number)) {
      throw fileChanged(this.#file.path);
    }
    return record;
  }

  #value<T>(address: Value<T>, value: NoInfer<T>, number: number): ReplayStep {
    const write = { ...setValue(address, value), seq: this.#nextSeq++ };
    return { writes: [write], line: this.#index.line(number), bytes: VALUE_BYTES };
  }

  /** @throws ArchiveError for a fault of the line */
  #at<T>(number: number, work: () => T): T {
    return located({ path: this.#file.path, line: this.#index.line(number) }, work);
  }

  /** `undefined` where a lenient reading goes on without. */
  #try<T>(number: number, work: () => T): T | undefined {
    return this.#faults.try(this.#index.line(number), work);
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

/** The tail becomes part of one entry, which is subject to the same limits as a line. */
function refuseTail(): never {
  throw new LineFault("line_too_long", `the compaction keeps messages of more than ${MAX_LINE_BYTES} bytes`);
}

function toolNames(names: unknown): string[] {
  if (!Array.isArray(names))
    throw new LineFault("invalid_record", "the `activeToolNames` of the record are no list");
  return [...names];
}

/** Who spent what no message says. */
function spender({ kind, provider, model, note }: V3Usage) {
  return JSON.parse(JSON.stringify({ kind, provider, model, note }));
}
