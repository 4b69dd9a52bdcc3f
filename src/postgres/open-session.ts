import { type ExpressionBuilder, type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionNotFoundError, SessionVersionError } from "../contract/errors.ts";
import { STORAGE_VERSION } from "../contract/storage.ts";
import type { DB } from "./schema.generated.ts";
import { HEAD_COLUMNS, headOf, type SessionHead, tipsColumn, tipsOf } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, METADATA_COLUMNS, metadataOf, type PgSessionMetadata } from "./session-row.ts";
import { read, type Tables, write } from "./transaction.ts";

/** How to open a session. */
export interface OpenOptions {
  /**
   * Shuts out every writer that opened the session before: its next commit rejects with SessionFencedError, and it
   * can still read. Default false: any number of writers share the session.
   */
  exclusive?: boolean;
}

/** A session as it is when it is opened. */
export interface OpenedSession {
  metadata: PgSessionMetadata;
  head: SessionHead;
  /** Commits are refused when a later, exclusive opening has raised it. */
  writerEpoch: number;
}

/**
 * Reads all that an open session remembers, in one round trip.
 *
 * @throws SessionNotFoundError, SessionVersionError
 */
export async function openSession(
  tables: Tables,
  key: SessionKey,
  { exclusive = false }: OpenOptions,
  context: Context,
): Promise<OpenedSession> {
  const columns = [...METADATA_COLUMNS, ...HEAD_COLUMNS, "writer_epoch"] as const;
  const tips = (eb: ExpressionBuilder<DB, "sessions">) => tipsColumn(eb, key);
  const raised = (db: Kysely<DB>) =>
    db
      .updateTable("sessions")
      .set({ writer_epoch: sql<number>`writer_epoch + 1` })
      .where(isSession(key))
      .returning(columns)
      .returning(tips);
  const [row] = exclusive
    ? await write(tables, context, raised, { isRepeatable: true })
    : await read(tables, context, (db) =>
        db.selectFrom("sessions").select(columns).select(tips).where(isSession(key)),
      );
  if (row === undefined) throw new SessionNotFoundError(key.sessionId);
  const metadata = metadataOf(row);
  if (metadata.storageVersion > STORAGE_VERSION) {
    throw new SessionVersionError(key.sessionId, metadata.storageVersion);
  }
  return { metadata, head: headOf(row, tipsOf(row.tips)), writerEpoch: row.writer_epoch };
}
