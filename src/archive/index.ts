export { ArchiveError, type ArchiveErrorCode } from "./errors.ts";
export { type ImportOptions, importArchives } from "./importer.ts";
export type {
  FailedOutcome,
  FileOutcome,
  ImportProgress,
  ImportReport,
  SkippedOutcome,
  StoredOutcome,
} from "./report.ts";
