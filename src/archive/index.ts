export { ArchiveError, type ArchiveErrorCode } from "./errors.ts";
export {
  type ExportFormat,
  type ExportOptions,
  type ExportOutcome,
  exportSession,
} from "./export-session.ts";
export { type ImportOptions, importArchives } from "./importer.ts";
export type { LeftOut } from "./left-out.ts";
export {
  type FailedOutcome,
  type FileOutcome,
  type ImportProgress,
  type ImportReport,
  reportOf,
  type SkippedOutcome,
  type StoredOutcome,
} from "./report.ts";
