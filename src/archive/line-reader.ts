import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { type ArchiveFile, fileChanged } from "./archive-file.ts";
import { ArchiveError, LineFault } from "./errors.ts";
import { isDeeperThan } from "./json-bytes.ts";

/** One line of a file. */
export interface Line {
  /** Counted from 1. */
  readonly number: number;
  /** Of its first byte. */
  readonly offset: number;
  /** Without the line feed. */
  readonly bytes: Buffer;
  /** False for a last line without a line feed, which its writer may not have finished. */
  readonly terminated: boolean;
}

export interface LineReaderOptions {
  /** Reads no byte at or after this offset. Default: the end of the file. */
  readonly end?: number;
  /** Default {@link MAX_LINE_BYTES}. */
  readonly maxLineBytes?: number;
  /** Called with the number of bytes after each read. */
  readonly onRead?: (bytes: number) => void;
}

/** Longer lines are refused: a string holds no more than 512 Mi characters, and the server no more than 1 GiB. */
export const MAX_LINE_BYTES = 400 * 1024 * 1024;

/** The server takes some 13,000 levels, but older Node versions write no more than 4,000. */
export const MAX_LEVELS = 2_000;

const BLOCK_BYTES = 256 * 1024;
const LINE_FEED = 0x0a;

/** Reads the lines of a file, once, holding a block or one line in memory, and hashes all that it reads. */
export class LineReader {
  readonly #file: ArchiveFile;
  readonly #options: LineReaderOptions;
  readonly #hash = createHash("sha256");
  #bytes = 0;

  constructor(file: ArchiveFile, options: LineReaderOptions = {}) {
    this.#file = file;
    this.#options = options;
  }

  /** What was read, once the last line was asked for. */
  digest(): { sha256: string; bytes: number } {
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes };
  }

  /**
   * The lines that end in a block, for one block after the other: waiting for each line takes longer than finding it.
   * Take all of a block before asking for the next one.
   *
   * @throws ArchiveError with code `line_too_long` or `unreadable`
   */
  async *blocks(): AsyncGenerator<Iterable<Line>> {
    const begun = new BegunLine(this.#file.path, this.#options.maxLineBytes ?? MAX_LINE_BYTES);
    for (let block = await this.#read(); block.length > 0; block = await this.#read())
      yield begun.lines(block);
    if (begun.length > 0) yield [begun.finish(Buffer.alloc(0), false)];
  }

  /** Always into new memory, so that lines can be kept. */
  async #read(): Promise<Buffer> {
    const wanted = Math.min(BLOCK_BYTES, (this.#options.end ?? this.#file.size) - this.#bytes);
    if (wanted <= 0) return Buffer.alloc(0);
    const space = Buffer.allocUnsafeSlow(wanted);
    const block = space.subarray(0, await this.#file.read(space, this.#bytes, wanted));
    this.#hash.update(block);
    this.#bytes += block.length;
    this.#options.onRead?.(block.length);
    return block;
  }
}

/** Cuts blocks into lines, and collects the pieces of a line that goes on in the next block. */
class BegunLine {
  readonly #path: string;
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #number = 1;
  #offset = 0;
  length = 0;

  constructor(path: string, maxBytes: number) {
    this.#path = path;
    this.#maxBytes = maxBytes;
  }

  /** Those that end in the block, as they are asked for. */
  *lines(block: Buffer): Generator<Line> {
    let from = 0;
    for (let feed = block.indexOf(LINE_FEED); feed !== -1; feed = block.indexOf(LINE_FEED, from)) {
      yield this.finish(block.subarray(from, feed), true);
      from = feed + 1;
    }
    if (from === block.length) return;
    const piece = block.subarray(from);
    this.#grow(piece);
    this.#pieces.push(piece);
  }

  finish(piece: Buffer, terminated: boolean): Line {
    this.#grow(piece);
    const bytes = this.#pieces.length === 0 ? piece : Buffer.concat([...this.#pieces, piece]);
    const line = { number: this.#number, offset: this.#offset, bytes, terminated };
    this.#pieces = [];
    this.length = 0;
    this.#number++;
    this.#offset += bytes.length + 1;
    return line;
  }

  #grow(piece: Buffer): void {
    this.length += piece.length;
    if (this.length <= this.#maxBytes) return;
    const place = { path: this.#path, line: this.#number };
    throw new ArchiveError("line_too_long", place, `the line is longer than ${this.#maxBytes} bytes`);
  }
}

/** Reads single lines by their place. Lines near the last one cost no read. */
export class LineWindow {
  readonly #file: ArchiveFile;
  #window = Buffer.alloc(0);
  #start = 0;

  constructor(file: ArchiveFile) {
    this.#file = file;
  }

  async read(offset: number, length: number): Promise<Buffer> {
    if (offset < this.#start || offset + length > this.#start + this.#window.length)
      await this.#move(offset, length);
    return this.#window.subarray(offset - this.#start, offset - this.#start + length);
  }

  async #move(offset: number, length: number): Promise<void> {
    const window = Buffer.allocUnsafe(Math.max(length, BLOCK_BYTES));
    let filled = 0;
    while (filled < length) {
      const read = await this.#file.read(window.subarray(filled), offset + filled, window.length - filled);
      if (read === 0) throw fileChanged(this.#file.path); // it ended there
      filled += read;
    }
    this.#window = window.subarray(0, filled);
    this.#start = offset;
  }
}

const BYTE_ORDER_MARK = "\ufeff";

/** The text of a line. The first one may begin with a byte order mark. @throws LineFault */
export function textOf(bytes: Buffer, options: { first: boolean } = { first: false }): string {
  assertUtf8(bytes);
  const text = bytes.toString("utf8");
  return options.first && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}

/** @throws LineFault, since a decoder would put U+FFFD in the place of what it cannot read */
export function assertUtf8(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw new LineFault("invalid_utf8", "the line is not valid UTF-8");
}

/** @throws LineFault, without the parser's message, which quotes the line */
export function jsonOf(bytes: Buffer): unknown {
  const text = textOf(bytes);
  try {
    return JSON.parse(text);
  } catch {
    throw new LineFault(
      "invalid_json",
      text.trim() === "" ? "the line is blank" : "the line is not valid JSON",
    );
  }
}

/** @throws LineFault when JSON that a parser has accepted cannot be stored */
export function assertShallow(json: Buffer): void {
  if (!isDeeperThan(MAX_LEVELS, json)) return;
  throw new LineFault("invalid_record", `the line is nested deeper than ${MAX_LEVELS} levels`);
}
