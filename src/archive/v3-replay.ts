import type { ImportedWrite } from "../postgres/import-session.ts";
import { type ArchiveFile, fileChanged } from "./archive-file.ts";
import type { V3Header } from "./header.ts";
import type { Inheritance } from "./inheritance.ts";
import { JournalWriter } from "./journal.ts";
import { Lender } from "./lending.ts";
import type { LineFaults } from "./line-faults.ts";
import { type Line, LineReader } from "./line-reader.ts";
import { type ArchiveReplay, type OnRead, type ReplayEnd, ReplayStep, STEP_BYTES } from "./replay.ts";
import { entryOf } from "./v3-entry.ts";
import type { V3Index } from "./v3-index.ts";
import type { KeptSpending } from "./v3-kept-usage.ts";
import type { V3Compaction, V3RetainedRecord, V3Usage } from "./v3-record.ts";
import { V3Records } from "./v3-records.ts";
import { V3References } from "./v3-references.ts";
import { NO_TAIL, type RetainedTail, retainedTail } from "./v3-retained-tail.ts";
import { V3Scan } from "./v3-scan.ts";
import { type Spending, spendingOf, usageWrite } from "./v3-usage.ts";
import { V3Values } from "./v3-values.ts";

/** How often a file is read at most: for its entries, and for what they spent if that is much. */
export const V3_PASSES = 2;

/**
 * A file of version 1, 2 or 3 as format-4 writes: its entries in file order, then the values that its other records
 * amount to, then one usage row for each record that spent something.
 */
export class V3Replay implements ArchiveReplay {
  readonly journal = new JournalWriter();
  readonly #file: ArchiveFile;
  readonly #header: V3Header;
  readonly #faults: LineFaults;
  readonly #onRead: OnRead;
  readonly #scan: V3Scan;
  readonly #index: V3Index;
  readonly #records: V3Records;
  readonly #references: V3References;
  #digest: { sha256: string; bytes: number } | undefined;
  #tornBytes = 0;
  #nextSeq = 1;

  constructor(
    file: ArchiveFile,
    header: V3Header,
    options: { inheritance: Inheritance; faults: LineFaults; onRead: OnRead },
  ) {
    this.#file = file;
    this.#header = header;
    this.#faults = options.faults;
    this.#onRead = options.onRead;
    this.#scan = new V3Scan(header, options);
    this.#index = this.#scan.index;
    this.#records = new V3Records(file, header, this.#index);
    this.#references = new V3References(this.#index, this.#faults);
  }

  async *steps(): AsyncGenerator<ReplayStep> {
    yield* this.#entries();
    yield* this.#values();
    const { rows } = this.#scan.usage;
    if (rows === undefined) yield* this.#usageAgain();
    else yield* this.#usage(rows);
  }

  end(): ReplayEnd {
    if (this.#digest === undefined) throw new Error("the archive was not read to its end");
    return {
      nextSeq: this.#nextSeq,
      archive: { format: this.#header.format, ...this.#digest },
      tornBytes: this.#tornBytes,
      unusable: this.#faults.found,
    };
  }

  /** Whatever an entry needs of other records is in lines before its own, so that each is read once. */
  async *#entries(): AsyncGenerator<ReplayStep> {
    const reader = new LineReader(this.#file, { onRead: this.#onRead });
    for await (const lines of reader.blocks()) {
      let step = new ReplayStep();
      for (const line of lines) {
        const record = this.#admitted(line);
        const tail = record?.type === "compaction" ? await this.#tailOf(record) : NO_TAIL;
        const write = this.#lent(line, record, tail);
        if (write !== undefined) step.add(write, line.number);
        step.bytes += line.bytes.length + tail.bytes;
        if (step.bytes < STEP_BYTES) continue;
        yield step;
        step = new ReplayStep();
      }
      yield step;
    }
    this.#digest = reader.digest();
  }

  /** An unterminated last line is left out: its writer was interrupted. */
  #admitted(line: Line): V3RetainedRecord | undefined {
    if (line.number === this.#header.line && !line.bytes.equals(this.#header.bytes)) {
      throw fileChanged(this.#file.path);
    }
    if (line.terminated) return this.#scan.add(line);
    this.#tornBytes = line.bytes.length;
    return undefined;
  }

  #tailOf(compaction: V3Compaction): Promise<RetainedTail> {
    return retainedTail(compaction, this.#index.size - 1, {
      path: this.#file.path,
      index: this.#index,
      records: this.#records,
      references: this.#references,
    });
  }

  /** The entry of the record that was added to the index last. */
  #lent(line: Line, record: V3RetainedRecord | undefined, tail: RetainedTail): ImportedWrite | undefined {
    const lender = new Lender(this.journal, line.bytes);
    let write: ImportedWrite | undefined;
    if (record !== undefined) {
      const entry = this.#entry(record, tail);
      write = lender.lent(entry, this.#scan.payloadPlace(record, line));
    }
    lender.finish(line);
    return write;
  }

  #entry(record: V3RetainedRecord, tail: RetainedTail) {
    const number = this.#index.size - 1;
    return entryOf(record, {
      parentId: this.#index.parentEntryId(number, record.parentId),
      seq: this.#nextSeq++,
      retainedTail: tail.messages,
      fromId: this.#references.fromId(record, number),
    });
  }

  async *#values(): AsyncGenerator<ReplayStep> {
    const step = new ReplayStep();
    for await (const { write, number } of new V3Values(this.#index, this.#records, this.#faults).all()) {
      step.add({ ...write, seq: this.#nextSeq++ }, this.#index.line(number));
    }
    yield step;
  }

  *#usage(rows: readonly KeptSpending[]): Generator<ReplayStep> {
    this.#onRead(this.#file.size); // instead of the second reading
    let step = new ReplayStep();
    for (const { spending, line } of rows) {
      this.#spend(step, spending, line);
      if (step.bytes < STEP_BYTES) continue;
      yield step;
      step = new ReplayStep();
    }
    yield step;
  }

  /** The second reading must see what the first one saw. */
  async *#usageAgain(): AsyncGenerator<ReplayStep> {
    const reader = new LineReader(this.#file, { onRead: this.#onRead });
    let number = 0;
    for await (const lines of reader.blocks()) {
      const step = new ReplayStep();
      for (const line of lines) {
        if (number === this.#index.size || line.number !== this.#index.line(number)) continue;
        if (this.#index.isSpending(number)) {
          const record = this.#records.in(line.bytes, number) as V3RetainedRecord | V3Usage;
          this.#spend(step, spendingOf(record), line.number);
        }
        number++;
      }
      yield step;
    }
    if (reader.digest().sha256 !== this.#digest?.sha256) throw fileChanged(this.#file.path);
  }

  #spend(step: ReplayStep, spending: Spending, line: number): void {
    step.add(usageWrite(spending, { index: this.#index, seq: this.#nextSeq++ }), line);
    step.bytes += USAGE_ROW_BYTES;
  }
}

/** What a usage row weighs in a chunk, roughly. */
const USAGE_ROW_BYTES = 400;
