/** An array of rows' values as a parameter of a statement. */
export type ElementType = keyof typeof ELEMENTS;
export type ElementValue = string | number | boolean | Buffer | null;

/**
 * An array in the server's binary format, which the driver passes on as it is. The text format has each quote and
 * backslash escaped, on the way out by the driver at some 80 bytes of memory each, and the server reads it character
 * by character.
 */
export function binaryArray(type: ElementType, values: readonly ElementValue[]): Buffer {
  const { oid, size, write } = ELEMENTS[type];
  let total = HEADER_BYTES + values.length * LENGTH_BYTES;
  for (const value of values) if (value !== null) total += size(value as never);
  const array = Buffer.allocUnsafe(total);
  let at = writeHeader(array, oid, values.length);
  for (const value of values) {
    const start = at + LENGTH_BYTES;
    const length = value === null ? 0 : write(array, value as never, start);
    array.writeInt32BE(value === null ? NULL_LENGTH : length, at);
    at = start + length;
  }
  return array;
}

const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;
const HEADER_BYTES = 20;

/** One dimension that begins at 1; an empty array has none, but this is read as one too. */
function writeHeader(array: Buffer, oid: number, length: number): number {
  let at = array.writeInt32BE(1);
  at = array.writeInt32BE(1, at); // there may be nulls
  at = array.writeInt32BE(oid, at);
  at = array.writeInt32BE(length, at);
  return array.writeInt32BE(1, at);
}

interface Element<T> {
  readonly oid: number;
  readonly size: (value: T) => number;
  /** @returns the number of bytes that were written */
  readonly write: (array: Buffer, value: T, at: number) => number;
}

function textElement(oid: number): Element<string | Buffer> {
  return {
    oid,
    size: Buffer.byteLength,
    write: (array, text, at) => (typeof text === "string" ? array.write(text, at) : text.copy(array, at)),
  };
}

const ELEMENTS = {
  text: textElement(25),
  json: textElement(114),
  bytea: {
    oid: 17,
    size: (bytes) => bytes.length,
    write: (array, bytes, at) => bytes.copy(array, at),
  } satisfies Element<Buffer>,
  boolean: {
    oid: 16,
    size: () => 1,
    write: (array, value, at) => array.writeUInt8(value ? 1 : 0, at) - at,
  } satisfies Element<boolean>,
  integer: {
    oid: 23,
    size: () => 4,
    write: (array, value, at) => array.writeInt32BE(value, at) - at,
  } satisfies Element<number>,
  bigint: {
    oid: 20,
    size: () => 8,
    write: writeBigint,
  } satisfies Element<number>,
} as const;

/** A safe integer, in two halves. */
function writeBigint(array: Buffer, value: number, at: number): number {
  array.writeInt32BE(Math.floor(value / 2 ** 32), at);
  array.writeInt32BE(value | 0, at + 4);
  return 8;
}
