import { type Expression, type Kysely, sql } from "kysely";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";

/** A part of a run: everything up to `upto`, in the `depth`-th run of the path. */
export interface PathRun {
  run: number;
  upto: number;
  /** Counted from 1. */
  depth: number;
}

/**
 * Adds the CTE `path`: of each run between an entry and its root, everything up to `upto`. It takes one step
 * per run, that is per fork point, however many entries a run has. Its rows come in the order of the walk, and
 * only as many are made as are read.
 */
export function withPath(
  db: Kysely<DB>,
  { tenantId, sessionId }: SessionKey,
  startId: string | Expression<string | null>,
) {
  return db.withRecursive("path(run, upto, depth)", (cte) =>
    cte
      .selectFrom((eb) =>
        eb
          .selectFrom("entries")
          .select(["run", "seq"])
          .where("tenant_id", "=", tenantId)
          .where("session_id", "=", sessionId)
          .where(isExactly("entry_id", startId))
          .orderBy("entry_id")
          .limit(1)
          .as("start"),
      )
      .select(["start.run", "start.seq as upto", sql<number>`1`.as("depth")])
      .unionAll(
        cte
          .selectFrom("path")
          // Lateral with a limit: each lookup is one probe, whatever the planner believes of the sizes. The order
          // makes it one of the index on runs.
          .innerJoinLateral(
            (eb) =>
              eb
                .selectFrom("entries")
                .select("parent_id")
                .where("tenant_id", "=", tenantId)
                .where("session_id", "=", sessionId)
                .where(isExactly("entries.run", sql.ref("path.run")))
                .whereRef("entries.seq", ">=", "path.run")
                .orderBy("entries.run")
                .orderBy("entries.seq")
                .limit(1)
                .as("head"),
            (join) => join.onTrue(),
          )
          .innerJoinLateral(
            (eb) =>
              eb
                .selectFrom("entries")
                .select(["entries.run", "entries.seq"])
                .where("tenant_id", "=", tenantId)
                .where("session_id", "=", sessionId)
                .where(isExactly("entries.entry_id", sql.ref("head.parent_id")))
                .orderBy("entries.entry_id")
                .limit(1)
                .as("fork"),
            (join) => join.onTrue(),
          )
          .select(["fork.run", "fork.seq as upto", sql<number>`path.depth + 1`.as("depth")]),
      ),
  );
}
