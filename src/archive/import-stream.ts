import { assertWrite } from "../contract/write.ts";
import type { ImportChunk, ImportedWrite, ImportStream } from "../postgres/import-session.ts";
import { ArchiveError, atPlace } from "./errors.ts";
import { JournalProof } from "./journal-proof.ts";
import type { ArchiveReplay, ReplayEnd, ReplayStep } from "./replay.ts";
import { unplaced } from "./unplaced.ts";

/** What was read from an archive. */
export interface ArchiveCounts {
  entries: number;
  messages: number;
  usageRows: number;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Hands a replay to the database in chunks, having checked each write. After the last one it proves that they give
 * the bytes of the file back.
 */
export class ArchiveStream implements ImportStream {
  readonly chunks: AsyncIterable<ImportChunk>;
  readonly counts: ArchiveCounts = { entries: 0, messages: 0, usageRows: 0 };
  readonly #path: string;
  readonly #replay: ArchiveReplay;
  readonly #proof = new JournalProof();
  #lines: number[] = [];

  constructor(path: string, replay: ArchiveReplay) {
    this.#path = path;
    this.#replay = replay;
    this.chunks = this.#chunks();
  }

  finish(): ReplayEnd {
    return this.#replay.end();
  }

  /** The line of a write, by its position in the chunk that was handed out last. */
  lineOf(index: number): number | undefined {
    return this.#lines[index];
  }

  async *#chunks(): AsyncGenerator<ImportChunk> {
    let writes: ImportedWrite[] = [];
    let lines: number[] = [];
    let bytes = 0;
    for await (const step of this.#replay.steps()) {
      this.#admit(step);
      for (const write of step.writes) writes.push(write);
      for (const line of step.lines) lines.push(line);
      bytes += step.bytes;
      if (bytes < CHUNK_BYTES) continue;
      yield this.#chunk(writes, lines);
      writes = [];
      lines = [];
      bytes = 0;
    }
    yield this.#chunk(writes, lines);
    this.#assertProven();
  }

  #chunk(writes: ImportedWrite[], lines: number[]): ImportChunk {
    this.#lines = lines;
    const journal = this.#replay.journal.take();
    this.#proof.add(writes, journal);
    return { writes, journal };
  }

  #assertProven(): void {
    const { sha256, bytes } = this.#replay.end().archive;
    const given = this.#proof.digest();
    if (given.sha256 === sha256 && given.bytes === bytes) return;
    const reason = "what would be stored does not give its bytes back: please report this file";
    throw new ArchiveError("not_reproducible", { path: this.#path }, reason);
  }

  #admit({ writes, lines }: ReplayStep): void {
    for (const [index, write] of writes.entries()) {
      try {
        assertWrite(unplaced(write), index);
      } catch (error) {
        throw atPlace({ path: this.#path, line: lines[index] }, error);
      }
      this.#count(write);
    }
  }

  #count(write: ImportedWrite): void {
    if (write.kind === "entry") this.counts.entries++;
    if (write.kind === "entry" && write.type === "message") this.counts.messages++;
    if (write.kind === "usage") this.counts.usageRows++;
  }
}
