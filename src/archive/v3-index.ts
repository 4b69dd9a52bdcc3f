import { Column, PlaceColumn, ReferenceColumn } from "./column.ts";
import { LineFault, quoted } from "./errors.ts";
import { IdIndex } from "./id-index.ts";
import { isRetainedType, missingReference, V3_TYPES, type V3Record } from "./v3-record.ts";

/** Where there is no record: above a root. */
export const NONE = -1;

/** Above the numbers of types. */
const SPENDING = 0x80;

/**
 * The structure of a version 3 file without its content: some 20 bytes per record and its id. Records are
 * numbered from 0 in file order.
 */
export class V3Index {
  readonly ids = new IdIndex();
  readonly #parents = new Column((length) => new Int32Array(length));
  /** The record itself if it is retained, else its nearest retained ancestor. */
  readonly #anchors = new ReferenceColumn();
  /** Number of the type, and {@link SPENDING}. */
  readonly #kinds = new Column((length) => new Uint8Array(length));
  readonly #places: PlaceColumn;
  #spendingCount = 0;

  /** `start`: offset of the first record's line. */
  constructor(start: number) {
    this.#places = new PlaceColumn(start);
  }

  get size(): number {
    return this.ids.size;
  }

  /** How many records have a row in the ledger. */
  get spendingCount(): number {
    return this.#spendingCount;
  }

  /**
   * `isSpending`: the record has a row in the ledger. `length`: of its line, in bytes, with the line feed.
   *
   * @throws LineFault when the id is taken or the parent does not precede the record
   */
  add(record: V3Record, { length, isSpending }: { length: number; isSpending: boolean }): void {
    const parent = record.parentId === null ? NONE : this.ids.find(record.parentId);
    if (parent === NONE && record.parentId !== null) {
      const reason = `the parent ${quoted(record.parentId)} is no record before this one`;
      throw new LineFault("missing_parent", reason);
    }
    const number = this.size;
    if (!this.ids.add(record.id)) {
      throw new LineFault("duplicate_id", `the id ${quoted(record.id)} is that of an earlier record`);
    }
    this.#parents.push(parent);
    if (!isRetainedType(record.type)) this.#anchors.set(number, this.anchor(parent));
    this.#kinds.push(V3_TYPES.indexOf(record.type) | (isSpending ? SPENDING : 0));
    this.#places.push(length);
    if (isSpending) this.#spendingCount++;
  }

  parent(number: number): number {
    return this.#parents.at(number);
  }

  /** The record itself if it has an entry, else its nearest ancestor that has one. */
  anchor(number: number): number {
    return number === NONE ? NONE : this.#anchors.at(number);
  }

  type(number: number): V3Record["type"] {
    return V3_TYPES[this.#kinds.at(number) & ~SPENDING] as V3Record["type"];
  }

  isSpending(number: number): boolean {
    return (this.#kinds.at(number) & SPENDING) !== 0;
  }

  /** Counted from 1; the header is line 1. */
  line(number: number): number {
    return number + 2;
  }

  /** Where the record's line is, without its line feed. */
  place(number: number): { offset: number; length: number } {
    const { offset, length } = this.#places.at(number);
    return { offset, length: length - 1 };
  }

  /** The id of the entry that stands for a record. */
  entryId(number: number): string | null {
    const anchor = this.anchor(number);
    return anchor === NONE ? null : this.ids.idAt(anchor);
  }

  /**
   * The id of the entry that stands for the record with this id.
   *
   * @throws LineFault when there is no such record
   */
  resolve(what: string, id: unknown): string | null {
    if (id === null) return null;
    const number = typeof id === "string" ? this.ids.find(id) : NONE;
    if (number === NONE) throw missingReference(what, id);
    return this.entryId(number);
  }
}
