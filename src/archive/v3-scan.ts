import { assertEntryId, isStorable, TEXT_LIMITS } from "../contract/text.ts";
import { assertWrites } from "../contract/write.ts";
import { LineFault } from "./errors.ts";
import type { V3Header } from "./header.ts";
import type { Inheritance } from "./inheritance.ts";
import type { Place } from "./json-bytes.ts";
import type { JsonObject } from "./json-object.ts";
import { LedgerSelection } from "./ledger-selection.ts";
import type { LineFaults } from "./line-faults.ts";
import { assertShallow, type Line } from "./line-reader.ts";
import { V3Decoder } from "./v3-decoder.ts";
import { entryOf } from "./v3-entry.ts";
import { V3Index } from "./v3-index.ts";
import { V3KeptUsage } from "./v3-kept-usage.ts";
import {
  isRetained,
  structureOf,
  type V3Record,
  type V3RetainedRecord,
  type V3Usage,
  v3Record,
} from "./v3-record.ts";

/** Puts the records of a version 3 file into its index, in their order, and judges them. */
export class V3Scan {
  readonly index: V3Index;
  readonly usage = new V3KeptUsage();
  readonly #header: V3Header;
  readonly #decoder: V3Decoder;
  readonly #ledger = new LedgerSelection();
  readonly #inheritance: Inheritance;
  readonly #faults: LineFaults;

  constructor(header: V3Header, options: { inheritance: Inheritance; faults: LineFaults }) {
    this.index = new V3Index(header.end, header.line);
    this.#header = header;
    this.#decoder = new V3Decoder(header, this.index);
    this.#inheritance = options.inheritance;
    this.#faults = options.faults;
  }

  /**
   * Takes the next line.
   *
   * @returns its record, if that has an entry; it is the last one in the index then
   * @throws ArchiveError unless faults are lenient
   */
  add({ bytes, number: line }: Line): V3RetainedRecord | undefined {
    if (line < this.#header.line) {
      this.#faults.add(line, new LineFault("invalid_record", "the line stands before the session header"));
    }
    if (line <= this.#header.line) return undefined;
    const length = bytes.length + 1;
    let json: JsonObject | undefined;
    try {
      json = this.#decoder.decode(bytes, { number: this.index.size, line });
      assertShallow(bytes);
      const record = v3Record(json);
      if (record === undefined) this.index.skip(length);
      else this.#admit(record, { line, length });
      return record !== undefined && isRetained(record) ? record : undefined;
    } catch (error) {
      this.#faults.add(line, error);
      this.#keepPlace(json, length);
      return undefined;
    }
  }

  /** Where the line that was taken last spells what the payload of its record's entry holds. */
  payloadPlace(record: V3RetainedRecord, { bytes }: Line): Place | undefined {
    return this.#decoder.payloadPlace(record, bytes);
  }

  #admit(record: V3Record, { line, length }: { line: number; length: number }): void {
    this.#assertUsable(record);
    const structure = { id: record.id, parentId: this.#parentId(record, line) };
    const isSpending = this.#isSpending(record, line);
    this.index.add(structure, { kind: record.type, length, isSpending });
    if (isSpending) this.usage.add(record as V3RetainedRecord | V3Usage, line);
  }

  /** A lenient reading must know now what cannot be stored: later records rely on this one. */
  #assertUsable(record: V3Record): void {
    if (isRetained(record) || record.id.length > TEXT_LIMITS.id) assertEntryId("entry id", record.id);
    if (!this.#faults.isLenient || !isRetained(record)) return;
    const entry = entryOf(record, { parentId: null, seq: 1, retainedTail: [], fromId: null });
    assertWrites([{ kind: "entry", entry }]);
  }

  /** A record without its parent begins a tree of its own, as pi shows it. */
  #parentId({ parentId }: V3Record, line: number): string | null {
    if (!this.#faults.isLenient || parentId === null || this.index.ids.has(parentId)) return parentId;
    this.#faults.try(line, () => this.index.assertParent(parentId));
    return null;
  }

  #isSpending(record: V3Record, line: number): boolean {
    if ((isRetained(record) || record.type === "usage") && this.#inheritance.includes(record)) return false;
    return this.#faults.try(line, () => this.#ledger.select(record)) ?? false;
  }

  /** So that the records below stay connected with those above. */
  #keepPlace(json: JsonObject | undefined, length: number): void {
    const structure = json === undefined ? undefined : structureOf(json);
    const { ids } = this.index;
    if (structure === undefined || !isKeepable(structure.id) || ids.has(structure.id)) {
      this.index.skip(length);
      return;
    }
    const { id, parentId } = structure;
    const parent = parentId !== null && ids.has(parentId) ? parentId : null;
    this.index.add({ id, parentId: parent }, { kind: "unusable", length, isSpending: false });
  }
}

function isKeepable(id: string): boolean {
  return isStorable(id) && Buffer.byteLength(id) <= TEXT_LIMITS.id;
}
