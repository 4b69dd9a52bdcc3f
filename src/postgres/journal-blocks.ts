/** A row of `archive_journal`. */
export interface JournalBlock {
  /** From 0, without gaps. */
  readonly block: number;
  readonly content: Buffer;
}

const BLOCK_BYTES = 256 * 1024;

/** Cuts the pieces of a journal, of any size, into blocks that can be read one by one. */
export class JournalBlocks {
  #pieces: Buffer[] = [];
  #length = 0;
  #next = 0;

  /** @returns the blocks that are full now */
  add(piece: Buffer): JournalBlock[] {
    if (piece.length === 0) return [];
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#length < BLOCK_BYTES) return [];
    const all = Buffer.concat(this.#pieces);
    const rest = all.length % BLOCK_BYTES;
    this.#pieces = rest === 0 ? [] : [Buffer.from(all.subarray(all.length - rest))];
    this.#length = rest;
    return this.#cut(all.subarray(0, all.length - rest));
  }

  /** @returns the last block, if something is left for it */
  end(): JournalBlock[] {
    const rest = Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#length = 0;
    return this.#cut(rest);
  }

  #cut(content: Buffer): JournalBlock[] {
    const blocks: JournalBlock[] = [];
    for (let at = 0; at < content.length; at += BLOCK_BYTES) {
      blocks.push({ block: this.#next++, content: content.subarray(at, at + BLOCK_BYTES) });
    }
    return blocks;
  }
}
