import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { CommitOutcomeUnknownError } from "./errors.ts";
import { HEAD_COLUMNS, headOf, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, METADATA_COLUMNS, metadataOf, type PgSessionMetadata } from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";

/** A session that is to be added. */
export interface Addition {
  readonly key: SessionKey;
  /** Stays in the session's row until the next commit. */
  readonly commitId: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/** A session that has just been added. */
export interface Added {
  readonly metadata: PgSessionMetadata;
  readonly head: SessionHead;
}

/**
 * Adds a session. When the answer to an attempt gets lost, `add` tries again, and is refused if the first attempt has
 * added the session: it exists, or was the last that the tenant may have. The id of the commit tells whether it is
 * the one that was added.
 *
 * @param add calls what it gets in each attempt, with whether one before it may have happened
 * @throws what `add` throws, CommitOutcomeUnknownError when others have committed to the session since
 */
export async function addOnce(
  tables: Tables,
  addition: Addition,
  add: (attempted: (isUncertain: boolean) => void) => Promise<Added>,
): Promise<Added> {
  let mayBeAdded = false;
  const attempted = (isUncertain: boolean) => {
    mayBeAdded = isUncertain;
  };
  try {
    return await add(attempted);
  } catch (error) {
    if (!mayBeAdded || error instanceof CommitOutcomeUnknownError) throw error;
    const added = await findAdded(tables, addition).catch((cause: unknown) => {
      throw new CommitOutcomeUnknownError({ cause });
    });
    if (added === undefined) throw error;
    return added;
  }
}

async function findAdded(tables: Tables, { key, commitId, createdAt }: Addition): Promise<Added | undefined> {
  const [row] = await read(tables, BACKGROUND_CONTEXT, (db) =>
    db
      .selectFrom("sessions")
      .select([...METADATA_COLUMNS, ...HEAD_COLUMNS, "last_commit"])
      .where(isSession(key)),
  );
  if (row === undefined || row.created_at !== createdAt) return undefined;
  if (row.last_commit !== commitId) throw new CommitOutcomeUnknownError();
  return { metadata: metadataOf(row), head: headOf(row) };
}
