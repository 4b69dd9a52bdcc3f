import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionNotFoundError } from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { metadataText, termsOf } from "./session-metadata.ts";
import { isSession } from "./session-row.ts";
import { assertWritable } from "./tenant-limits.ts";
import { readCommitted, type Tables, type Transaction } from "./transaction.ts";

/**
 * Replaces the metadata of a session. This is not a commit: it moves no branch tip, and the session counts as
 * unchanged.
 *
 * @throws InvalidOptionError, SessionNotFoundError, TenantSuspendedError
 */
export async function setMetadata(
  tables: Tables,
  key: SessionKey,
  metadata: ReadonlyJsonObject,
  context: Context,
): Promise<void> {
  const text = metadataText(metadata);
  const terms = termsOf(metadata);
  const work = (trx: Transaction) =>
    trx.commitWith(assertWritable(tables), replaceMetadata(trx.db, key, text, terms));
  const [, [updated]] = await readCommitted(tables, context, work, { isRepeatable: true });
  if (updated === undefined) throw new SessionNotFoundError(key.sessionId);
}

function replaceMetadata(db: Kysely<DB>, key: SessionKey, text: string, terms: readonly string[]) {
  return db
    .with("updated", (cte) =>
      cte
        .updateTable("sessions")
        .set({ metadata: text })
        .where(isSession(key))
        .returning(["tenant_id", "session_id", "created_at"]),
    )
    .with("outdated", (cte) =>
      cte
        .deleteFrom("session_terms")
        .where(isSession(key))
        .where(sql<boolean>`term <> all(${terms}::bigint[])`)
        .where(sql<boolean>`exists (select from updated)`),
    )
    .with("added", (cte) =>
      cte
        .insertInto("session_terms")
        .columns(["tenant_id", "session_id", "created_at", "term"])
        .expression((eb) =>
          eb
            .selectFrom([
              "updated",
              sql<{ term: number }>`unnest(${terms}::bigint[])`.as<"new">(sql`new(term)`),
            ])
            .select(["updated.tenant_id", "updated.session_id", "updated.created_at", "new.term"]),
        )
        .onConflict((conflict) => conflict.doNothing()),
    )
    .selectFrom("updated")
    .select("session_id");
}
