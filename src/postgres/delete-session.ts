import { sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionNotFoundError } from "../contract/errors.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { assertWritable } from "./tenant-limits.ts";
import { readCommitted, type Tables, type Transaction } from "./transaction.ts";
import { forgetUsage } from "./usage-sums.ts";

/**
 * Removes a session and, by cascade, all that belongs to it. Its forks stay.
 *
 * @throws SessionNotFoundError, TenantSuspendedError
 */
export async function deleteSession(tables: Tables, key: SessionKey, context: Context): Promise<void> {
  let mayBeDone = false;
  const work = (trx: Transaction, isUncertain: boolean) => {
    mayBeDone = isUncertain;
    return trx.commitWith(
      assertWritable(tables),
      forgetUsage(tables, key),
      trx.db
        .with("deleted", (cte) =>
          cte
            .deleteFrom("sessions")
            .where(isSession(key))
            .returning(sql<number>`greatest(stored_bytes, reserved_bytes)`.as("bytes")),
        )
        .with("discounted", (cte) =>
          cte
            .updateTable("tenant_storage as c")
            .from("deleted")
            .set({ sessions: sql`c.sessions - 1`, bytes: sql`c.bytes - deleted.bytes` })
            .where("c.tenant_id", "=", key.tenantId),
        )
        .selectFrom("deleted")
        .select("bytes"),
    );
  };
  // The cascades: how many rows a session has differs too much for one plan.
  const options = { plans: "custom", isRepeatable: true } as const;
  const [, , [deleted]] = await readCommitted(tables, context, work, options);
  if (deleted === undefined && !mayBeDone) throw new SessionNotFoundError(key.sessionId);
}
