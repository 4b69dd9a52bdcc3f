/** Numbers of one record field. Grows by whole segments, so growing never copies what is there. */
export class Column<TArray extends Uint8Array | Int32Array | Uint32Array | Float64Array> {
  readonly #newSegment: (length: number) => TArray;
  readonly #segments: TArray[] = [];
  #length = 0;

  constructor(newSegment: (length: number) => TArray) {
    this.#newSegment = newSegment;
  }

  get length(): number {
    return this.#length;
  }

  push(number: number): void {
    const offset = this.#length & SEGMENT_MASK;
    if (offset === 0) this.#segments.push(this.#newSegment(SEGMENT_LENGTH));
    (this.#segments[this.#length >>> SEGMENT_BITS] as TArray)[offset] = number;
    this.#length++;
  }

  /** The index must be one that was pushed. */
  at(index: number): number {
    return (this.#segments[index >>> SEGMENT_BITS] as TArray)[index & SEGMENT_MASK] as number;
  }
}

/** A reference of each record, mostly to the record itself. Takes memory only where there are others. */
export class ReferenceColumn {
  readonly #segments: (Int32Array | undefined)[] = [];

  set(index: number, reference: number): void {
    const number = index >>> SEGMENT_BITS;
    const segment = this.#segments[number] ?? selfReferences(number * SEGMENT_LENGTH);
    segment[index & SEGMENT_MASK] = reference;
    this.#segments[number] = segment;
  }

  at(index: number): number {
    return this.#segments[index >>> SEGMENT_BITS]?.[index & SEGMENT_MASK] ?? index;
  }
}

function selfReferences(first: number): Int32Array {
  return Int32Array.from({ length: SEGMENT_LENGTH }, (_, offset) => first + offset);
}

/**
 * Where pieces of a file lie that follow one another: their lengths, and every so often an offset. Half of what
 * offsets alone would take.
 */
export class PlaceColumn {
  readonly #lengths = new Column((length) => new Uint32Array(length));
  readonly #checkpoints = new Column((length) => new Float64Array(length));
  /** By the number of the piece after each. */
  readonly #gaps = new Map<number, number>();
  #end: number;

  constructor(start: number) {
    this.#end = start;
  }

  push(length: number): void {
    if (this.#lengths.length % CHECKPOINT_DISTANCE === 0) this.#checkpoints.push(this.#end);
    this.#lengths.push(length);
    this.#end += length;
  }

  /** Before the next piece, so many bytes belong to none. */
  skip(length: number): void {
    const index = this.#lengths.length;
    this.#gaps.set(index, (this.#gaps.get(index) ?? 0) + length);
    this.#end += length;
  }

  at(index: number): { offset: number; length: number } {
    const first = index - (index % CHECKPOINT_DISTANCE);
    let offset = this.#checkpoints.at(first / CHECKPOINT_DISTANCE);
    for (let before = first; before < index; before++) {
      offset += this.#lengths.at(before) + (this.#gaps.get(before + 1) ?? 0);
    }
    return { offset, length: this.#lengths.at(index) };
  }
}

/** The line of each record, where few lines are none. */
export class LineColumn {
  readonly #first: number;
  /** For each line that is no record, in order, how many records come before it. */
  readonly #skipped = new Column((length) => new Uint32Array(length));

  /** `first`: the line of the first record. */
  constructor(first: number) {
    this.#first = first;
  }

  /** The line after this many records is none. */
  skip(records: number): void {
    this.#skipped.push(records);
  }

  at(index: number): number {
    let [low, high] = [0, this.#skipped.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#skipped.at(middle) <= index) low = middle + 1;
      else high = middle;
    }
    return this.#first + index + low;
  }
}

const CHECKPOINT_DISTANCE = 64;
const SEGMENT_BITS = 14;
const SEGMENT_LENGTH = 1 << SEGMENT_BITS;
const SEGMENT_MASK = SEGMENT_LENGTH - 1;
