import type { UnusableLine } from "./line-faults.ts";

/** What became of one path. Tell the kinds apart by `status`. */
export type FileOutcome = StoredOutcome | SkippedOutcome | FailedOutcome;

/** The session of this file is stored, or would be. */
export interface StoredOutcome {
  /** Path of the file. */
  path: string;
  /**
   * `imported`: it is stored now. `unchanged`: it was stored already, from the same bytes. `would_import`: this is a
   * dry run.
   */
  status: "imported" | "unchanged" | "would_import";
  /** Id of the session, as in the file. */
  sessionId: string;
  /** Version of the archive format: 1 to 4. */
  format: number;
  /** Number of entries; 0 if the file is unchanged, since then only its hash was computed. */
  entries: number;
  /** Number of `message` entries; 0 if the file is unchanged. */
  messages: number;
  /** Number of rows for the usage ledger; 0 if the file is unchanged. */
  usageRows: number;
  /** Size of the file. */
  bytes: number;
  /**
   * Bytes after the last line feed, if there are any: whatever wrote them was interrupted, so they are no part of the
   * session. `original` export has them.
   */
  tornBytes?: number;
  /**
   * Of a lenient import, the lines that could not be used, or not wholly: the first 100 of them. `original` export has
   * all of them.
   */
  unusable?: UnusableLine[];
  /** How many lines could not be used, or not wholly. */
  unusableCount?: number;
}

/** This path was found in a directory and is not a session archive. */
export interface SkippedOutcome {
  /** Path of the file or directory. */
  path: string;
  /** Nothing was stored, and nothing is wrong. */
  status: "skipped";
  /** Why it was skipped. */
  reason: string;
}

/** This path cannot be imported. Nothing of it was stored. */
export interface FailedOutcome {
  /** Path of the file or directory. */
  path: string;
  /** Something is wrong; `code`, `line` and `reason` say what and where. */
  status: "failed";
  /** Of a SQLite database, the session that cannot be imported. */
  sessionId?: string;
  /** Counted from 1; absent where no single line is at fault. */
  line?: number;
  /** Stable across versions: an `ArchiveErrorCode`, the code of a PiSessionError, or `refused_by_database`. */
  code: string;
  /** What is wrong and, where something can be done, what to do. Never repeats message content. */
  reason: string;
}

/** What became of all paths of an import. */
export interface ImportReport {
  /** One outcome per path, in the order in which they were found. */
  files: FileOutcome[];
  /** Number of files whose session was stored. */
  imported: number;
  /** Number of files whose session was stored already, from the same bytes. */
  unchanged: number;
  /** Number of files whose session a dry run would have stored. */
  wouldImport: number;
  /** Number of paths in directories that are not session archives. */
  skipped: number;
  /** Number of paths that cannot be imported. */
  failed: number;
  /** Number of entries in the files that were or would be imported. */
  entries: number;
  /** Number of `message` entries in the files that were or would be imported. */
  messages: number;
  /** Number of rows for the usage ledger from the files that were or would be imported. */
  usageRows: number;
  /** Size of the files that were or would be imported. */
  bytes: number;
}

/** How far an import has come. */
export interface ImportProgress {
  /** Number of paths that are finished. */
  filesDone: number;
  /** Number of paths that were found. */
  filesTotal: number;
  /**
   * Bytes of the files that are finished, and of those that are being read in proportion to their work; never more
   * than `bytesTotal`.
   */
  bytesDone: number;
  /** Size of all files when they were found. */
  bytesTotal: number;
  /**
   * Number of files that `since`, `include` and `exclude` left out, without those in directories that `exclude`
   * matches.
   */
  leftOut: number;
  /** A file that is being read, or was just finished; absent at the start. */
  path?: string;
  /** What became of `path`; given when it is finished, once per path or per session of a SQLite database. */
  outcome?: FileOutcome;
}

/**
 * Sums up what `importArchives` tells, to its end.
 *
 * @throws what `importArchives` throws
 * @example
 * const report = await reportOf(importArchives(repo.importer, "sessions", {}, context));
 * console.log(`${report.imported} imported, ${report.failed} failed`);
 */
export async function reportOf(
  files: AsyncIterable<FileOutcome> | Iterable<FileOutcome>,
): Promise<ImportReport> {
  const report: ImportReport = {
    files: [],
    imported: 0,
    unchanged: 0,
    wouldImport: 0,
    skipped: 0,
    failed: 0,
    entries: 0,
    messages: 0,
    usageRows: 0,
    bytes: 0,
  };
  for await (const file of files) {
    report.files.push(file);
    report[file.status === "would_import" ? "wouldImport" : file.status]++;
    if (file.status !== "imported" && file.status !== "would_import") continue;
    report.entries += file.entries;
    report.messages += file.messages;
    report.usageRows += file.usageRows;
    report.bytes += file.bytes;
  }
  return report;
}
