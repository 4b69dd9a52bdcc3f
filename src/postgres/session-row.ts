import type { ExpressionBuilder } from "kysely";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { SessionMetadata } from "../contract/session.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";

/** What identifies and describes a stored session. */
export interface PgSessionMetadata extends SessionMetadata {
  /**
   * Data of the application, by which `repo.page` finds the session; `repo.setMetadata` replaces it. Absent where it
   * is empty.
   */
  metadata?: ReadonlyJsonObject;
}

export const METADATA_COLUMNS = [
  "session_id",
  "storage_version",
  "created_at",
  "cwd",
  "parent_session_id",
  "legacy_parent_path",
  "metadata",
] as const;

export const STATS_COLUMNS = [
  "message_count",
  "total_input",
  "total_output",
  "total_cache_read",
  "total_cache_write",
  "total_cache_write_1h",
  "total_reasoning",
  "total_tokens",
  "total_cost_input",
  "total_cost_output",
  "total_cost_cache_read",
  "total_cost_cache_write",
  "total_cost",
] as const;

export type StatsRow = Record<(typeof STATS_COLUMNS)[number], number | null>;

export interface MetadataRow {
  session_id: string;
  storage_version: number;
  created_at: number;
  cwd: string | null;
  parent_session_id: string | null;
  legacy_parent_path: string | null;
  metadata: string;
}

export function metadataOf(row: MetadataRow): PgSessionMetadata {
  const metadata = JSON.parse(row.metadata) as ReadonlyJsonObject;
  return {
    id: row.session_id,
    createdAt: row.created_at,
    storageVersion: row.storage_version,
    ...(row.cwd === null ? {} : { cwd: row.cwd }),
    ...(row.parent_session_id === null ? {} : { parentSessionId: row.parent_session_id }),
    ...(row.legacy_parent_path === null ? {} : { legacyParentSessionPath: row.legacy_parent_path }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

export function statsOf(row: StatsRow): SessionStats {
  const number = (column: keyof StatsRow) => row[column] ?? 0;
  return {
    messageCount: number("message_count"),
    usage: {
      input: number("total_input"),
      output: number("total_output"),
      cacheRead: number("total_cache_read"),
      cacheWrite: number("total_cache_write"),
      ...(row.total_cache_write_1h === null ? {} : { cacheWrite1h: row.total_cache_write_1h }),
      ...(row.total_reasoning === null ? {} : { reasoning: row.total_reasoning }),
      totalTokens: number("total_tokens"),
      cost: {
        input: number("total_cost_input"),
        output: number("total_cost_output"),
        cacheRead: number("total_cost_cache_read"),
        cacheWrite: number("total_cost_cache_write"),
        total: number("total_cost"),
      },
    },
  };
}

export function statsColumns({ messageCount, usage }: SessionStats) {
  return {
    message_count: messageCount,
    total_input: usage.input,
    total_output: usage.output,
    total_cache_read: usage.cacheRead,
    total_cache_write: usage.cacheWrite,
    total_cache_write_1h: usage.cacheWrite1h ?? null,
    total_reasoning: usage.reasoning ?? null,
    total_tokens: usage.totalTokens,
    total_cost_input: usage.cost.input,
    total_cost_output: usage.cost.output,
    total_cost_cache_read: usage.cost.cacheRead,
    total_cost_cache_write: usage.cost.cacheWrite,
    total_cost: usage.cost.total,
  };
}

/** Condition that holds for the rows of one session in any table that has them. */
export function isSession({ tenantId, sessionId }: SessionKey) {
  // biome-ignore lint/suspicious/noExplicitAny: any table with these two columns
  return (eb: ExpressionBuilder<DB, any>) =>
    eb.and([eb("tenant_id", "=", tenantId), eb("session_id", "=", sessionId)]);
}
