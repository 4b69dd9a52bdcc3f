/** What became of one path. */
export type FileOutcome = StoredOutcome | SkippedOutcome | FailedOutcome;

export interface StoredOutcome {
  path: string;
  /** `unchanged`: the session is stored already, from the same bytes. `would_import`: this is a dry run. */
  status: "imported" | "unchanged" | "would_import";
  sessionId: string;
  /** Version of the archive format. */
  format: number;
  /** These three are 0 where the file is unchanged, since only its hash was looked at. */
  entries: number;
  messages: number;
  usageRows: number;
  /** Size of the file. */
  bytes: number;
}

/** Found in a directory, and no session archive. */
export interface SkippedOutcome {
  path: string;
  status: "skipped";
  reason: string;
}

export interface FailedOutcome {
  path: string;
  status: "failed";
  /** Counted from 1. */
  line?: number;
  /** Stable; see `ArchiveErrorCode`. */
  code: string;
  /** What is wrong and what to do. Never repeats what was said in the session. */
  reason: string;
}

export interface ImportReport {
  dryRun: boolean;
  /** In the order in which they were found. */
  files: FileOutcome[];
  imported: number;
  unchanged: number;
  wouldImport: number;
  skipped: number;
  failed: number;
  /** Of all files that were or would be imported. */
  entries: number;
  messages: number;
  usageRows: number;
  bytes: number;
}

/** How far an import is. */
export interface ImportProgress {
  /** Files that are finished, of all that were found. */
  filesDone: number;
  filesTotal: number;
  /** Bytes of the files; those of the current file count by the share of its work. */
  bytesDone: number;
  bytesTotal: number;
  /** The file that is being read or was finished. */
  path: string;
  /** Given once for each file, when it is finished. */
  outcome?: FileOutcome;
}

export function reportOf(files: FileOutcome[], dryRun: boolean): ImportReport {
  const report: ImportReport = {
    dryRun,
    files,
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
  for (const file of files) {
    report[file.status === "would_import" ? "wouldImport" : file.status]++;
    if (file.status !== "imported" && file.status !== "would_import") continue;
    report.entries += file.entries;
    report.messages += file.messages;
    report.usageRows += file.usageRows;
    report.bytes += file.bytes;
  }
  return report;
}
