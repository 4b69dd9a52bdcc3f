import type { Kysely } from "kysely";
import { SessionExistsError } from "../contract/errors.ts";
import { STORAGE_VERSION } from "../contract/storage.ts";
import { assertSessionId, assertText, TEXT_LIMITS } from "../contract/text.ts";
import type { DB } from "./schema.generated.ts";
import { keyColumns, type SessionKey } from "./session-key.ts";
import {
  METADATA_COLUMNS,
  metadataOf,
  newHead,
  type PgSessionMetadata,
  statsColumns,
} from "./session-row.ts";

/** A session to be stored. `createdAt` is in milliseconds since the epoch. */
export interface NewSession {
  id: string;
  createdAt: number;
  cwd?: string;
  parentSessionId?: string;
  legacyParentSessionPath?: string;
}

/**
 * Inserts the row of a session without any write.
 *
 * @throws InvalidTextError, SessionExistsError
 */
export async function createSession(
  db: Kysely<DB>,
  key: SessionKey,
  session: NewSession,
): Promise<PgSessionMetadata> {
  assertNewSession(session);
  const head = newHead();
  const row = await db
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
    .onConflict((conflict) => conflict.columns(["tenant_id", "session_id"]).doNothing())
    .returning(METADATA_COLUMNS)
    .executeTakeFirst();
  if (row === undefined) throw new SessionExistsError(session.id);
  return metadataOf(row);
}

/** @throws InvalidTextError */
function assertNewSession({ id, parentSessionId, cwd, legacyParentSessionPath }: NewSession): void {
  assertSessionId("session id", id);
  if (parentSessionId !== undefined) assertSessionId("parent session id", parentSessionId);
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  if (legacyParentSessionPath !== undefined) {
    assertText("parent session path", legacyParentSessionPath, { maxBytes: TEXT_LIMITS.path, empty: true });
  }
}
