import { randomInt } from "node:crypto";
import { TEXT_LIMITS } from "../contract/text.ts";
import { Column } from "./column.ts";
import { LineFault } from "./errors.ts";

/**
 * Numbers ids from 0 in the order of their arrival and finds the number of an id. Takes the bytes of the id, or 16
 * for a UUID, and about 16 more, where a `Map` would take some 150: an archive may have millions of records.
 */
export class IdIndex {
  /** Each id as two bytes of length and its bytes, in blocks that no id straddles. */
  readonly #blocks: Buffer[] = [];
  readonly #positions = new Column((length) => new Uint32Array(length));
  /** Where the next id goes. */
  #end = 0;
  /** Open addressing with linear probing: number of the id plus one, or zero. */
  #slots = new Int32Array(1 << 12);
  /** Ids come from strangers, so nobody may know beforehand which of them collide. */
  readonly #seed = randomInt(2 ** 32);
  readonly #scratch = Buffer.allocUnsafe(2 + 3 * TEXT_LIMITS.id);

  get size(): number {
    return this.#positions.length;
  }

  /** @returns false when the id is there already; `id` must be storable (`assertText`) */
  add(id: string): boolean {
    if (2 * this.size >= this.#slots.length) this.#grow();
    const bytes = this.#encode(id);
    const slot = this.#slotOf(bytes);
    if (this.#slots[slot] !== 0) return false;
    this.#positions.push(this.#store(bytes));
    this.#slots[slot] = this.size;
    return true;
  }

  /** The number of the id, or -1. */
  find(id: string): number {
    if (id.length > TEXT_LIMITS.id || !id.isWellFormed()) return -1;
    return (this.#slots[this.#slotOf(this.#encode(id))] as number) - 1;
  }

  has(id: string): boolean {
    return this.find(id) !== -1;
  }

  idAt(number: number): string {
    const position = this.#positions.at(number);
    const block = this.#blocks[position >>> BLOCK_BITS] as Buffer;
    const start = (position & BLOCK_MASK) + 2;
    const length = block.readUInt16LE(start - 2);
    return length === PACKED ? unpackUuid(block, start) : block.toString("utf8", start, start + length);
  }

  /** In the scratch buffer, until the next call: the length with the mark of a packed UUID, then the bytes. */
  #encode(id: string): Buffer {
    const scratch = this.#scratch;
    if (packUuid(id, scratch, 2)) {
      scratch.writeUInt16LE(PACKED, 0);
      return scratch.subarray(0, 2 + UUID_BYTES);
    }
    const length = scratch.write(id, 2);
    scratch.writeUInt16LE(length, 0);
    return scratch.subarray(0, 2 + length);
  }

  /** The slot that holds the id, or the free one where it belongs. */
  #slotOf(id: Buffer): number {
    const mask = this.#slots.length - 1;
    let slot = this.#hash(id, 0, id.length) & mask;
    while (this.#slots[slot] !== 0 && !this.#isAt((this.#slots[slot] as number) - 1, id))
      slot = (slot + 1) & mask;
    return slot;
  }

  #isAt(number: number, id: Buffer): boolean {
    const position = this.#positions.at(number);
    const block = this.#blocks[position >>> BLOCK_BITS] as Buffer;
    const start = position & BLOCK_MASK;
    for (let offset = 0; offset < id.length; offset++) {
      if (block[start + offset] !== id[offset]) return false;
    }
    return true;
  }

  #store(id: Buffer): number {
    if (
      (this.#end & BLOCK_MASK) + id.length > BLOCK_BYTES ||
      this.#end === this.#blocks.length * BLOCK_BYTES
    ) {
      this.#end = this.#blocks.length * BLOCK_BYTES;
      if (this.#end > MAX_POSITION)
        throw new LineFault("too_many_records", "the file has more ids than fit in memory");
      this.#blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES));
    }
    const position = this.#end;
    id.copy(this.#blocks[position >>> BLOCK_BITS] as Buffer, position & BLOCK_MASK);
    this.#end += id.length;
    return position;
  }

  #grow(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    const mask = slots.length - 1;
    for (let number = 0; number < this.size; number++) {
      const position = this.#positions.at(number);
      const block = this.#blocks[position >>> BLOCK_BITS] as Buffer;
      const start = position & BLOCK_MASK;
      const length = block.readUInt16LE(start);
      let slot = this.#hash(block, start, start + 2 + (length === PACKED ? UUID_BYTES : length)) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = number + 1;
    }
    this.#slots = slots;
  }

  /** FNV-1a, with its upper bits mixed into the lower ones, which choose the slot. */
  #hash(bytes: Buffer, start: number, end: number): number {
    let hash = this.#seed;
    for (let offset = start; offset < end; offset++)
      hash = Math.imul(hash ^ (bytes[offset] as number), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
    return (hash ^ (hash >>> 16)) >>> 0;
  }
}

const BLOCK_BITS = 18;
const BLOCK_BYTES = 1 << BLOCK_BITS;
const BLOCK_MASK = BLOCK_BYTES - 1;
const MAX_POSITION = 2 ** 32 - BLOCK_BYTES;

/** A length that no id has, in the place of that of a UUID. */
const PACKED = 0xffff;
const UUID_BYTES = 16;
const UUID_LENGTH = 36;
const DASH = 0x2d;

/** Only what {@link unpackUuid} gives back unchanged is packed: lower case, dashes in their places. */
function packUuid(id: string, into: Buffer, start: number): boolean {
  if (id.length !== UUID_LENGTH) return false;
  let at = start;
  for (let index = 0; index < UUID_LENGTH; index++) {
    if (index === 8 || index === 13 || index === 18 || index === 23) {
      if (id.charCodeAt(index) !== DASH) return false;
      continue;
    }
    const high = hexDigit(id.charCodeAt(index));
    const low = hexDigit(id.charCodeAt(++index));
    if (high === -1 || low === -1) return false;
    into[at++] = (high << 4) | low;
  }
  return true;
}

function unpackUuid(block: Buffer, start: number): string {
  const hex = block.toString("hex", start, start + UUID_BYTES);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  return code >= 0x61 && code <= 0x66 ? code - 0x57 : -1;
}
