import type { CommittedWrite } from "../contract/write.ts";
import type { ArchiveRecord } from "../postgres/import-session.ts";

/** A placed write, and the line it comes from. */
export interface ReplayedWrite {
  readonly write: CommittedWrite;
  /** Counted from 1. */
  readonly line: number;
  /** About how much memory it takes. */
  readonly bytes: number;
}

/** One reading of an archive, whatever its version. */
export interface ArchiveReplay {
  /** In the order of their `seq`. @throws ArchiveError */
  writes(): AsyncIterable<ReplayedWrite>;
  /** After the last write. */
  end(): { nextSeq: number; archive: ArchiveRecord };
}
