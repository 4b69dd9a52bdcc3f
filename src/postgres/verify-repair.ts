import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, STATS_COLUMNS } from "./session-row.ts";
import { assertWritable } from "./tenant-limits.ts";
import { assertNotAborted, readCommitted, type Tables, type Transaction } from "./transaction.ts";
import type { VerifyCheck } from "./verify.ts";
import { type Examination, examineSession, type Projection } from "./verify-session.ts";

const REPAIRABLE: ReadonlySet<VerifyCheck> = new Set([
  "entry_run",
  "entry_bytes",
  "message_count",
  "usage_totals",
  "session_name",
  "first_message",
  "stored_bytes",
  "reserved_bytes",
  "metadata_terms",
  "tenant_sessions",
  "tenant_bytes",
  "usage_sums",
]);

/** Whether it follows from other rows. */
export function isRepairable(check: VerifyCheck): boolean {
  return REPAIRABLE.has(check);
}

/**
 * Looks at a session again and rebuilds what is wrong and follows from other rows, in one transaction.
 *
 * @returns what was wrong, `undefined` if the session is gone
 * @throws TenantSuspendedError, DatabasePermissionError when the role may not change what is wrong
 */
export function repairSession(
  tables: Tables,
  key: SessionKey,
  context: Context,
): Promise<Examination | undefined> {
  return readCommitted(tables, context, async (trx) => {
    // From here on every statement sees what the others have committed, and nobody commits to the session.
    await trx.send(assertWritable(tables), lockStorage(trx.db, key), takeSession(trx.db, key));
    const examination = await examineSession(trx, key, context);
    if (examination === undefined) return undefined;
    const { faults, corrected, terms } = examination;
    const has = (check: VerifyCheck) => faults.some((fault) => fault.check === check);
    if (has("entry_run")) await rebuildRuns(trx, key, context);
    if (has("metadata_terms")) await trx.send(...rebuildTerms(trx.db, key, terms));
    if (has("entry_bytes")) await trx.send(resizeEntries(trx.db, key));
    if (Object.keys(corrected).length > 0) await correctRow(trx, key, corrected);
    return examination;
  });
}

/** Locked before the session, in the order in which bytes are reserved, so that the two cannot deadlock. */
function lockStorage(db: Kysely<DB>, { tenantId }: SessionKey) {
  return db.selectFrom("tenant_storage").select("tenant_id").where("tenant_id", "=", tenantId).forUpdate();
}

/**
 * A lock would not do: a commit that waits for it would go on with what it has read before. After an update it starts
 * over.
 */
function takeSession(db: Kysely<DB>, key: SessionKey) {
  return db
    .updateTable("sessions")
    .set((eb) => ({ modified_at: eb.ref("modified_at") }))
    .where(isSession(key));
}

function rebuildTerms(db: Kysely<DB>, key: SessionKey, terms: readonly string[]) {
  const added = db
    .insertInto("session_terms")
    .columns(["tenant_id", "session_id", "created_at", "term"])
    .expression((eb) =>
      eb
        .selectFrom(["sessions", sql<{ term: number }>`unnest(${terms}::bigint[])`.as<"new">(sql`new(term)`)])
        .select(["tenant_id", "session_id", "created_at", "new.term"])
        .where(isSession(key)),
    );
  return [db.deleteFrom("session_terms").where(isSession(key)), added] as const;
}

function resizeEntries(db: Kysely<DB>, key: SessionKey) {
  return db
    .updateTable("entries")
    .set({ payload_bytes: sql<number>`octet_length(payload::text)` })
    .where(isSession(key))
    .where(sql<boolean>`payload_bytes <> octet_length(payload::text)`);
}

async function correctRow(trx: Transaction, key: SessionKey, corrected: Partial<Projection>): Promise<void> {
  const isStored = corrected.stored_bytes !== undefined || corrected.reserved_bytes !== undefined;
  // What the session stores is counted again for the tenant, and reserved again by its next commit.
  if (isStored) await trx.send(chargeGrowth(trx.db, key, corrected.stored_bytes));
  await trx.send(
    trx.db
      .updateTable("sessions")
      .set({ ...corrected, ...(isStored ? { reserved_bytes: 0 } : {}) })
      // Whoever has the session open remembers the totals and would bring the wrong ones back. A gap in the numbers
      // makes it look again.
      .$if(
        STATS_COLUMNS.some((column) => column in corrected),
        (row) => row.set({ next_seq: sql<number>`next_seq + 1` }),
      )
      .where(isSession(key)),
  );
}

/** Until the tenant is counted anew, never too little is counted. */
function chargeGrowth(db: Kysely<DB>, { tenantId, sessionId }: SessionKey, storedBytes: number | undefined) {
  return db
    .updateTable("tenant_storage as c")
    .from("sessions as s")
    .set({
      bytes: sql<number>`c.bytes + greatest(0,
        coalesce(${storedBytes ?? null}::bigint, s.stored_bytes) - greatest(s.stored_bytes, s.reserved_bytes))`,
    })
    .where("c.tenant_id", "=", tenantId)
    .where("s.tenant_id", "=", tenantId)
    .where("s.session_id", "=", sessionId);
}

const ENTRIES_PER_READ = 1_000;

/** Places all entries anew, in the order of their commits, as the commits did. */
async function rebuildRuns(trx: Transaction, key: SessionKey, context: Context): Promise<void> {
  for (let after = 0; ; ) {
    assertNotAborted(context);
    const [page] = await trx.send(entriesStatement(trx.db, key, after));
    const [first] = page;
    if (first === undefined) return;
    const ids = new Set(page.map(({ entry_id }) => entry_id));
    const outside = page.flatMap(({ parent_id }) =>
      parent_id === null || ids.has(parent_id) ? [] : [parent_id],
    );
    const [parents] = await trx.send(parentsStatement(trx.db, key, outside, first.seq));
    const moved = placeEntries(page, parents);
    if (moved.seq.length > 0) await trx.send(moveEntries(trx.db, key, moved));
    after = page.at(-1)?.seq as number;
  }
}

interface Parent {
  run: number;
  has_child: boolean;
}

function placeEntries(
  page: readonly { entry_id: string; parent_id: string | null; seq: number; run: number }[],
  parents: readonly (Parent & { entry_id: string })[],
): { seq: number[]; run: number[] } {
  const placed = new Map<string, Parent>(parents.map((parent) => [parent.entry_id, { ...parent }]));
  const moved = { seq: [] as number[], run: [] as number[] };
  for (const { entry_id, parent_id, seq, run: before } of page) {
    const run = placeBehind(parent_id === null ? null : placed.get(parent_id), { seq, run: before });
    placed.set(entry_id, { run, has_child: false });
    if (run === before) continue;
    moved.seq.push(seq);
    moved.run.push(run);
  }
  return moved;
}

/** @param parent `null` for a root; `undefined` where it is not there, or later: then any run is as good */
function placeBehind(parent: Parent | null | undefined, entry: { seq: number; run: number }): number {
  if (parent === undefined) return entry.run;
  if (parent === null || parent.has_child) return entry.seq;
  parent.has_child = true;
  return parent.run;
}

function entriesStatement(db: Kysely<DB>, key: SessionKey, after: number) {
  return db
    .selectFrom("entries")
    .select(["entry_id", "parent_id", "seq", "run"])
    .where(isSession(key))
    .where("seq", ">", after)
    .orderBy("seq")
    .limit(ENTRIES_PER_READ);
}

/** Parents before a `seq`, whose runs are right up to there. */
function parentsStatement(db: Kysely<DB>, key: SessionKey, ids: readonly string[], before: number) {
  return db
    .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<"wanted">(sql`wanted(id)`))
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom("entries")
          .select(["entry_id", "run", "seq"])
          .where(isSession(key))
          .where(isExactly("entries.entry_id", sql.ref("wanted.id")))
          .orderBy("entries.entry_id")
          .where("entries.seq", "<", before)
          .limit(1)
          .as("p"),
      (join) => join.onTrue(),
    )
    .select(["p.entry_id", "p.run"])
    .select((eb) =>
      eb
        .exists(
          eb
            .selectFrom("entries as next")
            .select(sql`1`.as("one"))
            .where("next.tenant_id", "=", key.tenantId)
            .where("next.session_id", "=", key.sessionId)
            .where(isExactly("next.run", sql.ref("p.run")))
            .whereRef("next.seq", ">", "p.seq")
            .where("next.seq", "<", before)
            .orderBy("next.run")
            .orderBy("next.seq")
            .offset(ONE_PROBE),
        )
        .$castTo<boolean>()
        .as("has_child"),
    );
}

function moveEntries(db: Kysely<DB>, key: SessionKey, moved: { seq: number[]; run: number[] }) {
  return (
    db
      .updateTable("entries as e")
      .from(
        sql<{ seq: number; run: number }>`unnest(${moved.seq}::bigint[], ${moved.run}::bigint[])`.as<"moved">(
          sql`moved(seq, run)`,
        ),
      )
      .set((eb) => ({ run: eb.ref("moved.run") }))
      .where("e.tenant_id", "=", key.tenantId)
      .where("e.session_id", "=", key.sessionId)
      // A range of the page, so that no plan reads more than that.
      .where("e.seq", ">=", moved.seq[0] as number)
      .where("e.seq", "<=", moved.seq.at(-1) as number)
      .whereRef("e.seq", "=", "moved.seq")
  );
}
