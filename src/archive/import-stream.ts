import { assertWrites } from "../contract/write.ts";
import type { ImportChunk, ImportedWrite, ImportStream } from "../postgres/import-session.ts";
import { ArchiveError, located } from "./errors.ts";
import { JournalProof } from "./journal-proof.ts";
import type { ArchiveReplay, ReplayEnd } from "./replay.ts";
import { unplaced } from "./unplaced.ts";

/** What was read from an archive. */
export interface ArchiveCounts {
  entries: number;
  messages: number;
  usageRows: number;
}

const CHUNK_BYTES = 256 * 1024;
const CHUNK_WRITES = 2_000;

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
      for (const write of step.writes) {
        this.#admit(write, step.line);
        writes.push(write);
        lines.push(step.line);
      }
      bytes += step.bytes;
      if (bytes < CHUNK_BYTES && writes.length < CHUNK_WRITES) continue;
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

  #admit(write: ImportedWrite, line: number): void {
    located({ path: this.#path, line }, () => assertWrites([unplaced(write)]));
    if (write.kind === "entry") this.counts.entries++;
    if (write.kind === "entry" && write.type === "message") this.counts.messages++;
    if (write.kind === "usage") this.counts.usageRows++;
  }
}
