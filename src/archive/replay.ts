import type { ArchiveRecord, ImportedWrite } from "../postgres/import-session.ts";
import type { JournalWriter } from "./journal.ts";
import type { UnusableLines } from "./line-faults.ts";

/** What some lines gave, beside what went into the journal. */
export class ReplayStep {
  readonly writes: ImportedWrite[] = [];
  /** For each write, the line that it comes from, counted from 1. */
  readonly lines: number[] = [];
  /** About how much memory it takes. */
  bytes = 0;

  add(write: ImportedWrite, line: number): void {
    this.writes.push(write);
    this.lines.push(line);
  }
}

/** Called with the number of bytes after each read. */
export type OnRead = (bytes: number) => void;

/** Whoever makes steps ends one here, so that two of them fit into memory, whatever lines say. */
export const STEP_BYTES = 256 * 1024;

/** One reading of an archive, whatever its version. */
export interface ArchiveReplay {
  /** Has the lines of the steps so far. */
  readonly journal: JournalWriter;
  /** Writes in the order of their `seq`. @throws ArchiveError */
  steps(): AsyncIterable<ReplayStep>;
  /** After the last step. */
  end(): ReplayEnd;
}

export interface ReplayEnd {
  readonly nextSeq: number;
  readonly archive: ArchiveRecord;
  /** Bytes of an unterminated last line, which is no part of the session. */
  readonly tornBytes: number;
  readonly unusable: UnusableLines;
}
