import type { Context } from "../contract/context.ts";
import { SessionNotFoundError } from "../contract/errors.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { onSnapshot, type Tables } from "./transaction.ts";

/**
 * Removes a session and, by cascade, all that belongs to it. Its forks stay.
 *
 * @throws SessionNotFoundError
 */
export async function deleteSession(tables: Tables, key: SessionKey, context: Context): Promise<void> {
  const deleted = await onSnapshot(tables, context, (trx) =>
    trx.deleteFrom("sessions").where(isSession(key)).returning("session_id").executeTakeFirst(),
  );
  if (deleted === undefined) throw new SessionNotFoundError(key.sessionId);
}
