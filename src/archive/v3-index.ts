import { Column, LineColumn, PlaceColumn, ReferenceColumn } from "./column.ts";
import { LineFault, quoted } from "./errors.ts";
import { IdIndex } from "./id-index.ts";
import { isRetainedType, missingReference, V3_TYPES, type V3Place, type V3Record } from "./v3-record.ts";

/** Where there is no record: above a root. */
export const NONE = -1;

/** What a record is; of an unusable one only its place in the tree is known. */
export type V3Kind = V3Record["type"] | "unusable";

const KINDS: readonly V3Kind[] = [...V3_TYPES, "unusable"];

/** Above the numbers of kinds. */
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
  readonly #lines: LineColumn;

  /** `start`: offset of the first line after the header, which is line `headerLine`. */
  constructor(start: number, headerLine: number) {
    this.#places = new PlaceColumn(start);
    this.#lines = new LineColumn(headerLine + 1);
  }

  get size(): number {
    return this.ids.size;
  }

  /**
   * `isSpending`: the record has a row in the ledger. `length`: of its line, in bytes, with the line feed.
   *
   * @throws LineFault when the id is taken or the parent does not precede the record
   */
  add(
    { id, parentId }: V3Place,
    { kind, length, isSpending }: { kind: V3Kind; length: number; isSpending: boolean },
  ): void {
    if (parentId !== null) this.assertParent(parentId);
    const parent = parentId === null ? NONE : this.ids.find(parentId);
    const number = this.size;
    if (!this.ids.add(id)) {
      throw new LineFault("duplicate_id", `the id ${quoted(id)} is that of an earlier record`);
    }
    this.#parents.push(parent);
    if (kind === "unusable" || !isRetainedType(kind)) this.#anchors.set(number, this.anchor(parent));
    this.#kinds.push(KINDS.indexOf(kind) | (isSpending ? SPENDING : 0));
    this.#places.push(length);
  }

  /** @throws LineFault when no earlier record has this id */
  assertParent(parentId: string): void {
    if (this.ids.has(parentId)) return;
    throw new LineFault("missing_parent", `the parent ${quoted(parentId)} is no record before this one`);
  }

  /** A line that is no record; `length` in bytes, with the line feed. */
  skip(length: number): void {
    this.#places.skip(length);
    this.#lines.skip(this.size);
  }

  parent(number: number): number {
    return this.#parents.at(number);
  }

  /** The record itself if it has an entry, else its nearest ancestor that has one. */
  anchor(number: number): number {
    return number === NONE ? NONE : this.#anchors.at(number);
  }

  isRetained(number: number): boolean {
    const kind = this.kind(number);
    return kind !== "unusable" && isRetainedType(kind);
  }

  kind(number: number): V3Kind {
    return KINDS[this.#kinds.at(number) & ~SPENDING] as V3Kind;
  }

  isSpending(number: number): boolean {
    return (this.#kinds.at(number) & SPENDING) !== 0;
  }

  /** The line of a record, counted from 1; of the number after the last one, a line after it. */
  line(number: number): number {
    return this.#lines.at(number);
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

  /** The id of the entry that stands for the parent of a record, which the record calls `parentId`. */
  parentEntryId(number: number, parentId: string | null): string | null {
    const parent = this.parent(number);
    return parent !== NONE && this.anchor(parent) === parent ? parentId : this.entryId(parent);
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
