import type { Kysely } from "kysely";
import type { Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import { shortened } from "./page-sessions.ts";
import type { DB } from "./schema.generated.ts";
import { METADATA_COLUMNS, metadataOf, type PgSessionMetadata } from "./session-row.ts";
import { mainTip, type SessionSummary, SUMMARY_COLUMNS, summaryOf } from "./session-summary.ts";
import { read, type Tables } from "./transaction.ts";
import { endOfPrefix } from "./values.ts";

/** Which sessions of a tenant to list. */
export interface PgSessionListOptions {
  /** Only sessions created with exactly this working directory; up to 4,096 bytes of UTF-8. */
  cwd?: string;
  /** Only sessions whose id begins with this; up to 256 bytes of UTF-8. */
  idPrefix?: string;
  /** At most this many sessions, at least 1; default: all. */
  limit?: number;
}

/** Newest first; sessions created at the same time by id. */
export async function listSessions(
  tables: Tables,
  tenantId: string,
  options: PgSessionListOptions,
  context: Context,
): Promise<PgSessionMetadata[]> {
  assertListOptions(options);
  const rows = await read(
    tables,
    context,
    (db) => sessionsOf(db, tenantId, options).select(METADATA_COLUMNS),
    { plans: "sorted" },
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
  const statement = (db: Kysely<DB>) =>
    db
      .selectFrom(
        sessionsOf(db, tenantId, options)
          .select(["tenant_id", ...SUMMARY_COLUMNS])
          .as("s"),
      )
      .select(SUMMARY_COLUMNS.map((column) => `s.${column}` as const))
      .select(mainTip(db, "s"))
      .orderBy("s.created_at", "desc")
      .orderBy("s.session_id");
  const rows = await read(tables, context, statement, { plans: "sorted" });
  return rows.map(summaryOf);
}

function sessionsOf(db: Kysely<DB>, tenantId: string, { cwd, idPrefix, limit }: PgSessionListOptions) {
  const end = idPrefix === undefined ? undefined : endOfPrefix(idPrefix);
  return db
    .selectFrom("sessions")
    .where("tenant_id", "=", tenantId)
    .$if(cwd !== undefined, (sessions) =>
      sessions.where("cwd_key", "=", shortened(cwd as string)).where("cwd", "=", cwd as string),
    )
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
