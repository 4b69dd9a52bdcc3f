import type { Kysely } from "kysely";
import type { Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { DB } from "./schema.generated.ts";
import {
  METADATA_COLUMNS,
  metadataOf,
  type PgSessionMetadata,
  STATS_COLUMNS,
  statsOf,
} from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";
import { endOfPrefix } from "./values.ts";

export interface PgSessionListOptions {
  /** Only sessions created with this working directory. */
  cwd?: string;
  /** Only sessions whose id begins with this. */
  idPrefix?: string;
  /** At most so many; all without it. */
  limit?: number;
}

/** What a person picks a session by. */
export interface SessionSummary {
  metadata: PgSessionMetadata;
  /** Characters that text columns cannot hold are replaced. */
  name: string | undefined;
  /** The start of it, on one line. */
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
  const rows = await read(tables, context, (db) =>
    sessionsOf(db, tenantId, options).select(METADATA_COLUMNS),
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
  const rows = await read(tables, context, (db) =>
    sessionsOf(db, tenantId, options).select([
      ...METADATA_COLUMNS,
      ...STATS_COLUMNS,
      "name",
      "first_message",
      "modified_at",
    ]),
  );
  return rows.map((row) => ({
    metadata: metadataOf(row),
    name: row.name ?? undefined,
    firstMessage: row.first_message ?? undefined,
    modifiedAt: row.modified_at,
    stats: statsOf(row),
  }));
}

function sessionsOf(db: Kysely<DB>, tenantId: string, { cwd, idPrefix, limit }: PgSessionListOptions) {
  const end = idPrefix === undefined ? undefined : endOfPrefix(idPrefix);
  return db
    .selectFrom("sessions")
    .where("tenant_id", "=", tenantId)
    .$if(cwd !== undefined, (sessions) => sessions.where("cwd", "=", cwd as string))
    .$if(idPrefix !== undefined, (sessions) => sessions.where("session_id", ">=", idPrefix as string))
    .$if(end !== undefined, (sessions) => sessions.where("session_id", "<", end as string))
    .orderBy("created_at", "desc")
    .orderBy("session_id")
    .$if(limit !== undefined, (sessions) => sessions.limit(limit as number));
}

/** @throws InvalidTextError, InvalidOptionError */
function assertListOptions({ cwd, idPrefix, limit }: PgSessionListOptions): void {
  if (idPrefix !== undefined)
    assertText("id prefix", idPrefix, { maxBytes: TEXT_LIMITS.sessionId, empty: true });
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0)) {
    throw new InvalidOptionError("limit", limit, "pass a whole number from 1 on");
  }
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
}
