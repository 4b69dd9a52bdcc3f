/**
 * One step of a journal: write these bytes, or what the payload of an entry holds. Entries are those that can lend
 * their payload, in the order of their `seq`; `skipped` of them come between the one before and this one.
 */
export type JournalStep = { readonly verbatim: Buffer } | { readonly skipped: number };

/** Records how the bytes of a file follow from the entries that were imported from it. */
export class JournalWriter {
  #program: Buffer[] = [];
  #verbatim: Buffer[] = [];
  #verbatimBytes = 0;
  #skipped = 0;

  /** The file goes on with these bytes, which must not change any more. */
  verbatim(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#verbatim.push(bytes);
    this.#verbatimBytes += bytes.length;
  }

  /** The file goes on with what the payload of the next entry holds. */
  payload(): void {
    this.#endVerbatim();
    this.#program.push(varint(2 * this.#skipped + PAYLOAD));
    this.#skipped = 0;
  }

  /** The next entry could lend its payload, but the file spells it differently. */
  skip(): void {
    this.#skipped++;
  }

  /** What was recorded since the last time, in whole steps. */
  take(): Buffer {
    this.#endVerbatim();
    const program = Buffer.concat(this.#program);
    this.#program = [];
    return program;
  }

  #endVerbatim(): void {
    if (this.#verbatimBytes === 0) return;
    this.#program.push(varint(2 * this.#verbatimBytes + VERBATIM), ...this.#verbatim);
    this.#verbatim = [];
    this.#verbatimBytes = 0;
  }
}

/** Reads a journal from blocks that may begin and end anywhere. */
export class JournalReader {
  /** Of the number that the block before ended in. */
  #number = 0;
  #factor = 1;
  /** Of the bytes that the block before ended in. */
  #missing = 0;

  /** The steps in this block; bytes that go on in the next one are several steps. */
  *steps(block: Buffer): Generator<JournalStep> {
    for (let at = 0; at < block.length; ) {
      if (this.#missing > 0) {
        const verbatim = block.subarray(at, at + this.#missing);
        this.#missing -= verbatim.length;
        at += verbatim.length;
        yield { verbatim };
        continue;
      }
      const instruction = this.#add(block[at++] as number);
      if (instruction === undefined) continue;
      if (instruction % 2 === VERBATIM) this.#missing = (instruction - VERBATIM) / 2;
      else yield { skipped: (instruction - PAYLOAD) / 2 };
    }
  }

  /** Whether the last block ended with a whole step. */
  get isComplete(): boolean {
    return this.#missing === 0 && this.#factor === 1;
  }

  /** The number, once its last byte is there. Not by shifts, which have 32 bits. */
  #add(byte: number): number | undefined {
    this.#number += (byte & 0x7f) * this.#factor;
    if (byte >= 0x80) {
      this.#factor *= 0x80;
      return undefined;
    }
    const number = this.#number;
    this.#number = 0;
    this.#factor = 1;
    return number;
  }
}

const VERBATIM = 0;
const PAYLOAD = 1;

/** Seven bits in a byte, the lowest first; all but the last byte have the eighth bit. */
function varint(number: number): Buffer {
  const bytes: number[] = [];
  let rest = number;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** The part of a payload's JSON that a journal refers to: the value of its only member. */
export function lentPart(payload: Buffer): Buffer {
  return payload.subarray(payload.indexOf(COLON) + 1, -1);
}

const COLON = 0x3a;
