import type { Context } from "../contract/context.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import type { SessionStats } from "../contract/usage.ts";
import {
  METADATA_COLUMNS,
  metadataOf,
  type PgSessionMetadata,
  STATS_COLUMNS,
  statsOf,
} from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";

export interface PgSessionListOptions {
  /** Only sessions created with this working directory. */
  cwd?: string;
}

/** What a person picks a session by. */
export interface SessionSummary {
  metadata: PgSessionMetadata;
  /** Shortened; characters that text columns cannot hold are replaced. */
  name: string | undefined;
  firstMessage: string | undefined;
  /** Milliseconds since the epoch. */
  modifiedAt: number;
  stats: SessionStats;
}

/** Newest first; sessions created at the same time by id. */
export async function listSessions(
  tables: Tables,
  tenantId: string,
  options: PgSessionListOptions,
  context: Context,
): Promise<PgSessionMetadata[]> {
  assertListOptions(options);
  const rows = await read(tables, context, (db, queryOptions) =>
    db
      .selectFrom("sessions")
      .select(METADATA_COLUMNS)
      .where("tenant_id", "=", tenantId)
      .$if(options.cwd !== undefined, (sessions) => sessions.where("cwd", "=", options.cwd as string))
      .orderBy("created_at", "desc")
      .orderBy("session_id")
      .execute(queryOptions),
  );
  return rows.map(metadataOf);
}

/** {@link listSessions} with what a session picker shows. No payload is read. */
export async function summarizeSessions(
  tables: Tables,
  tenantId: string,
  options: PgSessionListOptions,
  context: Context,
): Promise<SessionSummary[]> {
  assertListOptions(options);
  const rows = await read(tables, context, (db, queryOptions) =>
    db
      .selectFrom("sessions")
      .select([...METADATA_COLUMNS, ...STATS_COLUMNS, "name", "first_message", "modified_at"])
      .where("tenant_id", "=", tenantId)
      .$if(options.cwd !== undefined, (sessions) => sessions.where("cwd", "=", options.cwd as string))
      .orderBy("created_at", "desc")
      .orderBy("session_id")
      .execute(queryOptions),
  );
  return rows.map((row) => ({
    metadata: metadataOf(row),
    name: row.name ?? undefined,
    firstMessage: row.first_message ?? undefined,
    modifiedAt: row.modified_at,
    stats: statsOf(row),
  }));
}

/** @throws InvalidTextError */
function assertListOptions({ cwd }: PgSessionListOptions): void {
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
}
