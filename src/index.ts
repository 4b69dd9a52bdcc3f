export {
  ArchiveError,
  type ArchiveErrorCode,
  type ExportFormat,
  type ExportOptions,
  type ExportOutcome,
  exportSession,
  type FailedOutcome,
  type FileOutcome,
  type ImportOptions,
  type ImportProgress,
  type ImportReport,
  importArchives,
  type LeftOut,
  reportOf,
  type SkippedOutcome,
  type StoredOutcome,
} from "./archive/index.ts";
export {
  type Address,
  branchTip,
  branchTips,
  entryLabel,
  type ListCursor,
  type ListElement,
  type ListReadOptions,
  laneConfig,
  laneState,
  list,
  operationMeta,
  operationPreparation,
  operationResult,
  operationState,
  operationToolArgs,
  operationToolMemo,
  pendingAssistantFrames,
  pendingEntry,
  pendingToolOutput,
  type StoredValue,
  sessionName,
  type Value,
  type ValueList,
  value,
} from "./contract/address.ts";
export {
  BACKGROUND_CONTEXT,
  type Context,
  type ContextKey,
  createContextKey,
  withAbortSignal,
  withContextValue,
} from "./contract/context.ts";
export type * from "./contract/entry.ts";
export * from "./contract/errors.ts";
export type { JsonValue, ReadonlyJsonObject, ReadonlyJsonValue } from "./contract/json.ts";
export * from "./contract/lane.ts";
export type * from "./contract/message.ts";
export type * from "./contract/session.ts";
export * from "./contract/storage.ts";
export { addUsage, emptyUsage, type SessionStats, type Usage, type UsageCost } from "./contract/usage.ts";
export {
  appendList,
  type CommitResult,
  type CommittedWrite,
  deleteList,
  deleteValue,
  type EntryWrite,
  insertEntry,
  insertUsage,
  type ListAppendWrite,
  type ListDeleteWrite,
  type ListWrite,
  setValue,
  type UsageRow,
  type UsageWrite,
  type ValueDeleteWrite,
  type ValueSetWrite,
  type ValueWrite,
  type Write,
} from "./contract/write.ts";
export type { Budget, BudgetPeriod, BudgetStatus } from "./postgres/budgets.ts";
export type { NewSession } from "./postgres/create-session.ts";
export {
  Database,
  type DatabaseOptions,
  type OpenDatabaseOptions,
  openDatabase,
} from "./postgres/database.ts";
export type { DeletedRows } from "./postgres/delete-tenant.ts";
export * from "./postgres/errors.ts";
export type { SessionExporter, SessionSnapshot } from "./postgres/export-session.ts";
export type { ArchiveRecord, ImportStream, SessionImporter } from "./postgres/import-session.ts";
export type { IsolationCheck } from "./postgres/isolation.ts";
export type { Lineage } from "./postgres/lineage.ts";
export type { PgSessionListOptions } from "./postgres/list-sessions.ts";
export type { MigrationStatus } from "./postgres/migrations.ts";
export type { OpenOptions } from "./postgres/open-session.ts";
export type { PageOptions, PageSort, SessionPage } from "./postgres/page-sessions.ts";
export type { PreparedStatements } from "./postgres/pool.ts";
export type { StoredEntry, StoredUsage, StoredValueWrite, StoredWrite } from "./postgres/read-writes.ts";
export { type PgSession, type PgSessionCreateOptions, PgSessionRepo } from "./postgres/repo.ts";
export type { MigrationRoles } from "./postgres/roles.ts";
export type { DB } from "./postgres/schema.generated.ts";
export type { PgSessionMetadata } from "./postgres/session-row.ts";
export type { SessionSummary } from "./postgres/session-summary.ts";
export type { TenantLimits } from "./postgres/set-limits.ts";
export { PgStorage } from "./postgres/storage.ts";
export type {
  TenantCreateOptions,
  TenantDeleteOptions,
  TenantListOptions,
  TenantRecord,
  Tenants,
} from "./postgres/tenants.ts";
export { type Timeouts, withTimeouts } from "./postgres/timeouts.ts";
export type { Usage as UsageReports, UsageScope } from "./postgres/usage.ts";
export type { Budgets } from "./postgres/usage-budgets.ts";
export type { UsageChange, UsageChangesOptions } from "./postgres/usage-changes.ts";
export type { ExactCost, UsageGroup, UsageReport, UsageSums } from "./postgres/usage-report.ts";
export type {
  UsageColumnKey,
  UsageDimensionKey,
  UsageFilter,
  UsageKey,
  UsageMeasure,
  UsageOrder,
  UsageReportOptions,
  UsageTime,
  UsageTimeUnit,
} from "./postgres/usage-report-options.ts";
export type { Finding, VerifyCheck, VerifyOptions, VerifyReport } from "./postgres/verify.ts";
export { buildSessionContext, type SessionContextOptions } from "./session/model-context.ts";
export { StorageBackedSession, type StorageBackedSessionOptions } from "./session/session.ts";
export { type UsageChartOptions, usageChart } from "./usage/chart.ts";
export { usageCsv } from "./usage/csv.ts";
export { ParquetPrecisionError } from "./usage/errors.ts";
export { usageHtml } from "./usage/html/usage-html.ts";
export { usageParquet } from "./usage/parquet.ts";
