import { assertWrites, type CommittedWrite, type Write } from "../contract/write.ts";
import type { ImportChunk, ImportedWrite, ImportStream } from "../postgres/import-session.ts";
import { located } from "./errors.ts";
import type { ArchiveReplay, ReplayedWrite } from "./replay.ts";

/** What was read from an archive. */
export interface ArchiveCounts {
  entries: number;
  messages: number;
  usageRows: number;
}

const CHUNK_BYTES = 256 * 1024;
const CHUNK_WRITES = 2_000;
const NO_JOURNAL = Buffer.alloc(0);

/** Hands a replay to the database in chunks, having checked each write. */
export class ArchiveStream implements ImportStream {
  readonly chunks: AsyncIterable<ImportChunk>;
  readonly counts: ArchiveCounts = { entries: 0, messages: 0, usageRows: 0 };
  readonly #path: string;
  readonly #replay: ArchiveReplay;
  #lines: number[] = [];

  constructor(path: string, replay: ArchiveReplay) {
    this.#path = path;
    this.#replay = replay;
    this.chunks = this.#chunks();
  }

  finish(): ReturnType<ArchiveReplay["end"]> {
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
    for await (const replayed of this.#replay.writes()) {
      this.#admit(replayed);
      writes.push(replayed.write);
      lines.push(replayed.line);
      bytes += replayed.bytes;
      if (bytes < CHUNK_BYTES && writes.length < CHUNK_WRITES) continue;
      this.#lines = lines;
      yield { writes, journal: NO_JOURNAL };
      writes = [];
      lines = [];
      bytes = 0;
    }
    this.#lines = lines;
    if (writes.length > 0) yield { writes, journal: NO_JOURNAL };
  }

  #admit({ write, line }: ReplayedWrite): void {
    located({ path: this.#path, line }, () => assertWrites([unplaced(write)]));
    if (write.kind === "entry") this.counts.entries++;
    if (write.kind === "entry" && write.type === "message") this.counts.messages++;
    if (write.kind === "usage") this.counts.usageRows++;
  }
}

/** The write as a commit would hand it in. */
function unplaced(write: CommittedWrite): Write {
  switch (write.kind) {
    case "entry":
      return { kind: "entry", entry: write };
    case "usage":
      return { kind: "usage", row: write };
    default:
      return write;
  }
}
