import { randomUUID } from "node:crypto";
import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionExistsError } from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import { STORAGE_VERSION } from "../contract/storage.ts";
import { assertSessionId, assertText, TEXT_LIMITS } from "../contract/text.ts";
import { type Added, addOnce } from "./add-once.ts";
import { isTaken } from "./failure.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import { newHead } from "./session-head.ts";
import { keyColumns, type SessionKey } from "./session-key.ts";
import { metadataText, termsOf } from "./session-metadata.ts";
import {
  METADATA_COLUMNS,
  type MetadataRow,
  metadataOf,
  type PgSessionMetadata,
  statsColumns,
} from "./session-row.ts";
import { admitSession } from "./tenant-limits.ts";
import { readCommitted, type Tables, type Transaction } from "./transaction.ts";

/** Metadata of a session to be imported. */
export interface NewSession {
  /** 1 to 256 bytes of UTF-8. */
  id: string;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** Working directory of the agent; up to 4,096 bytes of UTF-8. */
  cwd?: string;
  /** The session that this one was forked from, 1 to 256 bytes of UTF-8; it need not exist. */
  parentSessionId?: string;
  /** Path of the parent's file, for an archive whose parent is known by its path only; up to 4,096 bytes of UTF-8. */
  legacyParentSessionPath?: string;
  /**
   * Data of the application, by which `repo.page` finds the session: a JSON object of up to 16,384 bytes, nested at
   * most 32 levels deep, without NUL or lone surrogates.
   */
  metadata?: ReadonlyJsonObject;
}

/**
 * Adds an empty session, in one round trip.
 *
 * @throws InvalidTextError, InvalidOptionError, SessionExistsError, TenantSuspendedError, TenantLimitError,
 *   CommitOutcomeUnknownError
 */
export async function createSession(
  tables: Tables,
  key: SessionKey,
  session: NewSession,
  context: Context,
): Promise<PgSessionMetadata> {
  const addition = { key, commitId: randomUUID(), createdAt: session.createdAt };
  const { metadata } = await addOnce(tables, addition, (attempted) => {
    const work = (trx: Transaction, isUncertain: boolean) => {
      attempted(isUncertain);
      return addSession(trx, tables, key, session, { isLast: true, commitId: addition.commitId });
    };
    return readCommitted(tables, context, work, { isRepeatable: true });
  });
  return metadata;
}

/**
 * Adds an empty session within a transaction, which it ends if `isLast`.
 *
 * @throws InvalidTextError, InvalidOptionError, SessionExistsError, TenantSuspendedError, TenantLimitError
 */
export async function addSession(
  trx: Transaction,
  tables: Tables,
  key: SessionKey,
  session: NewSession,
  { isLast, commitId }: { isLast: boolean; commitId?: string } = { isLast: false },
): Promise<Added> {
  assertNewSession(session);
  const statements = [admitSession(tables), insertSession(trx.db, key, session, commitId)] as const;
  try {
    const [, [row]] = await (isLast ? trx.commitWith(...statements) : trx.send(...statements));
    return { metadata: metadataOf(row as MetadataRow), head: newHead() };
  } catch (error) {
    throw isTaken(error, "sessions") ? new SessionExistsError(session.id) : error;
  }
}

/**
 * Inserts the row of a session without any write, and what it is found by.
 *
 * @param commitId by which somebody whose connection broke finds out that the session is the one that was added
 */
export function insertSession(db: Kysely<DB>, key: SessionKey, session: NewSession, commitId?: string) {
  const head = newHead();
  const { metadata = {} } = session;
  return db
    .with("created", (cte) =>
      cte
        .insertInto("sessions")
        .values({
          ...keyColumns(key),
          storage_version: STORAGE_VERSION,
          created_at: session.createdAt,
          modified_at: session.createdAt,
          cwd: session.cwd ?? null,
          parent_session_id: session.parentSessionId ?? null,
          legacy_parent_path: session.legacyParentSessionPath ?? null,
          root_session_id: rootOf(db, key, session.parentSessionId),
          last_commit: commitId ?? null,
          next_seq: head.nextSeq,
          ...statsColumns(head.stats),
          metadata: metadataText(metadata),
        })
        .returning(METADATA_COLUMNS),
    )
    .with("terms", (cte) =>
      cte
        .insertInto("session_terms")
        .columns(["tenant_id", "session_id", "created_at", "term"])
        .expression((eb) =>
          eb
            .selectFrom([
              "created",
              sql<{ term: number }>`unnest(${termsOf(metadata)}::bigint[])`.as<"new">(sql`new(term)`),
            ])
            .select([
              sql<string>`${key.tenantId}::uuid`.as("tenant_id"),
              "created.session_id",
              "created.created_at",
              "new.term",
            ]),
        ),
    )
    .selectFrom("created")
    .select(METADATA_COLUMNS);
}

/** The first session of the family: a parent that is not stored counts as such. */
function rootOf(db: Kysely<DB>, { tenantId, sessionId }: SessionKey, parent: string | undefined) {
  if (parent === undefined) return sessionId;
  const stored = db
    .selectFrom("sessions as parent")
    .select("parent.root_session_id")
    .where("parent.tenant_id", "=", tenantId)
    .where(isExactly("parent.session_id", parent))
    .orderBy("parent.session_id")
    .limit(1);
  return sql<string>`coalesce((${stored}), ${parent})`;
}

/** @throws InvalidTextError, InvalidOptionError */
export function assertNewSession(session: NewSession): void {
  const { id, parentSessionId, cwd, legacyParentSessionPath, metadata } = session;
  assertSessionId("session id", id);
  if (metadata !== undefined) metadataText(metadata);
  if (parentSessionId !== undefined) assertSessionId("parent session id", parentSessionId);
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  if (legacyParentSessionPath !== undefined) {
    assertText("parent session path", legacyParentSessionPath, { maxBytes: TEXT_LIMITS.path, empty: true });
  }
}
