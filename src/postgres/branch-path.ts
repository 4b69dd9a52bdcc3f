import type { Kysely } from "kysely";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";

/**
 * Adds the CTE `path`: of each run between an entry and its root, everything up to `upto`. It takes one step
 * per run, that is per fork point, however many entries a run has.
 */
export function withPath(db: Kysely<DB>, { tenantId, sessionId }: SessionKey, startId: string) {
  return db.withRecursive("path(run, upto)", (cte) =>
    cte
      .selectFrom("entries as start")
      .select(["start.run", "start.seq as upto"])
      .where("start.tenant_id", "=", tenantId)
      .where("start.session_id", "=", sessionId)
      .where("start.entry_id", "=", startId)
      .unionAll(
        cte
          .selectFrom("path")
          .innerJoin("entries as head", (join) =>
            join
              .on("head.tenant_id", "=", tenantId)
              .on("head.session_id", "=", sessionId)
              .onRef("head.run", "=", "path.run")
              .onRef("head.seq", "=", "path.run"),
          )
          .innerJoin("entries as fork", (join) =>
            join
              .on("fork.tenant_id", "=", tenantId)
              .on("fork.session_id", "=", sessionId)
              .onRef("fork.entry_id", "=", "head.parent_id"),
          )
          .select(["fork.run", "fork.seq as upto"]),
      ),
  );
}
