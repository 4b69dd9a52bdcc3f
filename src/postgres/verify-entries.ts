import { type Kysely, sql } from "kysely";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";

/** What the payloads of a session take, which the server reads one after the other and does not send. */
export function payloadsStatement(db: Kysely<DB>, key: SessionKey) {
  return db
    .selectFrom((eb) =>
      eb
        .selectFrom("entries")
        .select(["seq", "type", "payload_bytes", sql<number>`octet_length(payload::text)`.as("bytes")])
        .where(isSession(key))
        .offset(ONE_PROBE) // so that each size is computed once, not for each of its uses
        .as("e"),
    )
    .select([
      sql<number>`count(*) filter (where e.type = 'message')`.as("messages"),
      sql<number>`coalesce(sum(e.bytes), 0)::bigint`.as("bytes"),
      sql<number>`count(*) filter (where e.payload_bytes <> e.bytes)`.as("wrong"),
      sql<number | null>`min(e.seq) filter (where e.payload_bytes <> e.bytes)`.as("first_wrong"),
    ]);
}

/** The start of the first user message. */
export function firstPreviewStatement(db: Kysely<DB>, key: SessionKey) {
  return db
    .selectFrom("entries")
    .select("preview")
    .where(isSession(key))
    .where("preview", "is not", null)
    .orderBy("seq")
    .limit(1);
}

/**
 * Whether parents are there and earlier, and whether the runs are those that the parents make. One rule per entry is
 * enough, since it rests on the entries before: it goes on with its parent's run right after the parent, or it begins
 * a run of its own number, and then the parent's run has gone on with another child before. An entry
 * whose parent is not there can be in any run.
 */
export function treeStatement(db: Kysely<DB>, key: SessionKey) {
  const { tenantId, sessionId } = key;
  return db
    .with("placed", (cte) =>
      cte
        .selectFrom("entries")
        .select(["seq", "parent_id", "run"])
        .select(sql<string | null>`lag(entry_id) over (partition by run order by seq)`.as("before_id"))
        .where(isSession(key)),
    )
    .with("judged", (cte) =>
      cte
        .selectFrom("placed as e")
        // A probe for each, whatever the planner believes of the sizes.
        .leftJoinLateral(
          (eb) =>
            eb
              .selectFrom("entries")
              .select(["run", "seq"])
              .where(isSession(key))
              .where(isExactly("entries.entry_id", sql.ref("e.parent_id")))
              .orderBy("entries.entry_id")
              .limit(1)
              .as("p"),
          (join) => join.onTrue(),
        )
        .select("e.seq")
        .select((eb) => [
          sql<boolean>`e.parent_id is not null and p.seq is null`.as("is_orphan"),
          sql<boolean>`p.seq >= e.seq`.as("is_early"),
          sql<boolean>`case
            when e.parent_id is null then e.run <> e.seq
            when p.seq is null or p.seq >= e.seq then false
            when e.before_id = e.parent_id then false
            else e.run <> e.seq or not ${eb.exists(
              eb
                .selectFrom("entries as next")
                .select(sql`1`.as("one"))
                .where("next.tenant_id", "=", tenantId)
                .where("next.session_id", "=", sessionId)
                .where(isExactly("next.run", sql.ref("p.run")))
                .whereRef("next.seq", ">", "p.seq")
                .whereRef("next.seq", "<", "e.seq")
                .orderBy("next.run")
                .orderBy("next.seq")
                .offset(ONE_PROBE),
            )} end`.as("is_misplaced"),
        ]),
    )
    .selectFrom("judged")
    .select([
      sql<number>`count(*) filter (where is_orphan)`.as("orphans"),
      sql<number | null>`min(seq) filter (where is_orphan)`.as("first_orphan"),
      sql<number>`count(*) filter (where is_early)`.as("early"),
      sql<number | null>`min(seq) filter (where is_early)`.as("first_early"),
      sql<number>`count(*) filter (where is_misplaced)`.as("misplaced"),
      sql<number | null>`min(seq) filter (where is_misplaced)`.as("first_misplaced"),
    ]);
}

/** Every write has a number of its own, below the session's next one. Those of what was overwritten are gone. */
export function seqsStatement(db: Kysely<DB>, key: SessionKey) {
  return db
    .selectFrom((eb) =>
      eb
        .selectFrom(
          eb
            .selectFrom("entries")
            .select("seq")
            .where(isSession(key))
            .unionAll(eb.selectFrom("usage_ledger").select("seq").where(isSession(key)))
            .unionAll(eb.selectFrom("scalar_values").select("seq").where(isSession(key)))
            .unionAll(eb.selectFrom("list_values").select("seq").where(isSession(key)))
            .as("w"),
        )
        .select(["w.seq", sql<number>`count(*)`.as("writes")])
        .groupBy("w.seq")
        .as("w"),
    )
    .innerJoin("sessions as s", (join) =>
      join.on("s.tenant_id", "=", key.tenantId).on("s.session_id", "=", key.sessionId),
    )
    .select([
      sql<number>`count(*) filter (where w.writes > 1)`.as("shared"),
      sql<number | null>`min(w.seq) filter (where w.writes > 1)`.as("first_shared"),
      sql<number>`count(*) filter (where w.seq >= s.next_seq)`.as("ahead"),
      sql<number | null>`min(w.seq) filter (where w.seq >= s.next_seq)`.as("first_ahead"),
    ]);
}

/** Ids are unique among entries and usage rows together, which no index can say. */
export function idsStatement(db: Kysely<DB>, key: SessionKey) {
  return db
    .selectFrom("usage_ledger as u")
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom("entries")
          .select("entry_id")
          .where(isSession(key))
          .where(isExactly("entries.entry_id", sql.ref("u.usage_id")))
          .orderBy("entries.entry_id")
          .limit(1)
          .as("e"),
      (join) => join.onTrue(),
    )
    .where("u.tenant_id", "=", key.tenantId)
    .where("u.session_id", "=", key.sessionId)
    .select([sql<number>`count(*)`.as("shared"), sql<number | null>`min(u.seq)`.as("first_shared")]);
}
