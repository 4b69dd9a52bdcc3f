import type { Kysely } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionExistsError } from "../contract/errors.ts";
import { STORAGE_VERSION } from "../contract/storage.ts";
import { assertSessionId, assertText, TEXT_LIMITS } from "../contract/text.ts";
import { isTaken } from "./failure.ts";
import type { DB } from "./schema.generated.ts";
import { newHead } from "./session-head.ts";
import { keyColumns, type SessionKey } from "./session-key.ts";
import {
  METADATA_COLUMNS,
  type MetadataRow,
  metadataOf,
  type PgSessionMetadata,
  statsColumns,
} from "./session-row.ts";
import { admitSession } from "./tenant-limits.ts";
import { readCommitted, type Tables, type Transaction } from "./transaction.ts";

/** A session to be stored. `createdAt` is in milliseconds since the epoch. */
export interface NewSession {
  id: string;
  createdAt: number;
  cwd?: string;
  parentSessionId?: string;
  legacyParentSessionPath?: string;
}

/**
 * Adds an empty session, in one round trip.
 *
 * @throws InvalidTextError, SessionExistsError, TenantSuspendedError, TenantLimitError
 */
export function createSession(
  tables: Tables,
  key: SessionKey,
  session: NewSession,
  context: Context,
): Promise<PgSessionMetadata> {
  return readCommitted(tables, context, (trx) => addSession(trx, tables, key, session, { isLast: true }));
}

/** The same within a transaction, which it may end. */
export async function addSession(
  trx: Transaction,
  tables: Tables,
  key: SessionKey,
  session: NewSession,
  { isLast }: { isLast: boolean } = { isLast: false },
): Promise<PgSessionMetadata> {
  assertNewSession(session);
  const statements = [admitSession(tables), insertSession(trx.db, key, session)] as const;
  try {
    const [, [row]] = await (isLast ? trx.commitWith(...statements) : trx.send(...statements));
    return metadataOf(row as MetadataRow);
  } catch (error) {
    throw isTaken(error, "sessions") ? new SessionExistsError(session.id) : error;
  }
}

/** Inserts the row of a session without any write. */
export function insertSession(db: Kysely<DB>, key: SessionKey, session: NewSession) {
  const head = newHead();
  return db
    .insertInto("sessions")
    .values({
      ...keyColumns(key),
      storage_version: STORAGE_VERSION,
      created_at: session.createdAt,
      modified_at: session.createdAt,
      cwd: session.cwd ?? null,
      parent_session_id: session.parentSessionId ?? null,
      legacy_parent_path: session.legacyParentSessionPath ?? null,
      next_seq: head.nextSeq,
      ...statsColumns(head.stats),
    })
    .returning(METADATA_COLUMNS);
}

/** @throws InvalidTextError */
export function assertNewSession({ id, parentSessionId, cwd, legacyParentSessionPath }: NewSession): void {
  assertSessionId("session id", id);
  if (parentSessionId !== undefined) assertSessionId("parent session id", parentSessionId);
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  if (legacyParentSessionPath !== undefined) {
    assertText("parent session path", legacyParentSessionPath, { maxBytes: TEXT_LIMITS.path, empty: true });
  }
}
