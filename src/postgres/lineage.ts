import { type RawBuilder, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { SessionNotFoundError } from "../contract/errors.ts";
import type { SessionKey } from "./session-key.ts";
import { mainTip, type SessionSummary, SUMMARY_COLUMNS, summaryOf } from "./session-summary.ts";
import { read, type Tables } from "./transaction.ts";

/** Where a session comes from, and what was forked from it. */
export interface Lineage {
  /** The parent first, then its parent and so on. The line ends where a session was deleted. */
  ancestors: SessionSummary[];
  /** By generation, then by time of creation. A fork's parent is in its metadata. */
  descendants: SessionSummary[];
}

/** Imported archives may name each other as parents in a circle. */
const MAX_GENERATIONS = 10_000;

/** @throws SessionNotFoundError */
export async function readLineage(tables: Tables, key: SessionKey, context: Context): Promise<Lineage> {
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom(relatives(tables, key).as("r"))
      .innerJoinLateral(
        (eb) =>
          eb
            .selectFrom("sessions")
            .select(["tenant_id", ...SUMMARY_COLUMNS])
            .where("sessions.tenant_id", "=", key.tenantId)
            .whereRef("sessions.session_id", "=", "r.session_id")
            .limit(1)
            .as("s"),
        (join) => join.onTrue(),
      )
      .select(SUMMARY_COLUMNS.map((column) => `s.${column}` as const))
      .select(mainTip(db, "s"))
      .select("r.generation")
      .orderBy(sql`abs(r.generation)`)
      .orderBy("s.created_at")
      .orderBy("s.session_id"),
  );
  const ofGeneration = (isWanted: (generation: number) => boolean) =>
    rows.filter(({ generation }) => isWanted(generation)).map(summaryOf);
  if (ofGeneration((generation) => generation === 0).length === 0)
    throw new SessionNotFoundError(key.sessionId);
  return {
    ancestors: ofGeneration((generation) => generation < 0),
    descendants: ofGeneration((generation) => generation > 0),
  };
}

/** Ids with their generation: 0 for the session itself, negative for ancestors. */
function relatives(
  { schema }: Tables,
  { tenantId, sessionId }: SessionKey,
): RawBuilder<{ session_id: string; generation: number }> {
  const sessions = sql.id(schema, "sessions");
  return sql`(
    with recursive
    up(session_id, generation, seen) as (
      select ${sessionId}::text collate "C", 0, array[${sessionId}::text collate "C"]
      union all
      select parent.session_id, up.generation - 1, up.seen || parent.session_id
      from up cross join lateral (
        select s.parent_session_id as session_id from ${sessions} as s
        where s.tenant_id = ${tenantId} and s.session_id = up.session_id limit 1
      ) as parent
      where parent.session_id is not null and parent.session_id <> all(up.seen)
        and up.generation > ${sql.lit(-MAX_GENERATIONS)}
    ),
    down(session_id, generation) as (
      select ${sessionId}::text collate "C", 0
      union all
      select child.session_id, down.generation + 1
      from down cross join lateral (
        select s.session_id from ${sessions} as s
        where s.tenant_id = ${tenantId} and s.parent_session_id = down.session_id offset 0
      ) as child
      -- Each session has one parent, so a circle can only close where it began.
      where child.session_id <> ${sessionId} and down.generation < ${sql.lit(MAX_GENERATIONS)}
    )
    select session_id, generation from up
    union all
    select session_id, generation from down where generation > 0
  )`;
}
