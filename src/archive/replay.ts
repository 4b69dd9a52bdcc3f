import type { ArchiveRecord, ImportedWrite } from "../postgres/import-session.ts";
import type { JournalWriter } from "./journal.ts";
import type { UnusableLines } from "./line-faults.ts";

/** What one line gave, beside what went into the journal. */
export interface ReplayStep {
  /** Perhaps none. */
  readonly writes: readonly ImportedWrite[];
  /** The line it comes from, counted from 1. */
  readonly line: number;
  /** About how much memory it takes. */
  readonly bytes: number;
}

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
