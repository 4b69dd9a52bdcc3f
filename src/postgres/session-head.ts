import { type ExpressionBuilder, type Kysely, sql } from "kysely";
import { branchTips } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import { SessionNotFoundError } from "../contract/errors.ts";
import { emptyUsage, type SessionStats } from "../contract/usage.ts";
import type { CommittedWrite } from "../contract/write.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, STATS_COLUMNS, type StatsRow, statsOf } from "./session-row.ts";
import { sessionSlots, slotsOf, Templates } from "./template.ts";
import { read, type Tables } from "./transaction.ts";

/** What an open session remembers: where the next write goes, the totals before it, and branch tips. */
export interface SessionHead {
  readonly nextSeq: number;
  readonly stats: SessionStats;
  /** By branch, what is known of them; as stored, which need not be the id of an entry. */
  readonly tips: ReadonlyMap<string, unknown>;
}

export const HEAD_COLUMNS = [...STATS_COLUMNS, "next_seq"] as const;

export function headOf(
  row: StatsRow & { next_seq: number },
  tips: ReadonlyMap<string, unknown> = new Map(),
): SessionHead {
  return { nextSeq: row.next_seq, stats: statsOf(row), tips };
}

/** The head of a session without any write. */
export function newHead(): SessionHead {
  return { nextSeq: 1, stats: { messageCount: 0, usage: emptyUsage() }, tips: new Map() };
}

/** The tips after these writes. */
export function advanceTips(
  tips: ReadonlyMap<string, unknown>,
  writes: readonly CommittedWrite[],
): ReadonlyMap<string, unknown> {
  const next = new Map(tips);
  for (const write of writes) {
    if (write.kind !== "value" || write.namespace !== TIPS) continue;
    if (write.op === "set") next.set(write.key, write.value);
    else next.delete(write.key);
  }
  return next;
}

const TIPS = branchTips().namespace;

/** More are read when they are asked for. */
const MAX_TIPS = 100;

/** The tips of a session as the text of a JSON object, for a statement that reads `sessions`. */
export function tipsColumn(eb: ExpressionBuilder<DB, "sessions">, key: SessionKey) {
  return eb
    .selectFrom((tips) =>
      tips
        .selectFrom("scalar_values")
        .select(["key", "value"])
        .where(isSession(key))
        .where("namespace", "=", TIPS)
        .limit(MAX_TIPS)
        .as("t"),
    )
    .select(sql<string | null>`json_object_agg(t.key, t.value)::text`.as("tips"))
    .as("tips");
}

export function tipsOf(text: string | null): ReadonlyMap<string, unknown> {
  return new Map(text === null ? [] : Object.entries(JSON.parse(text) as Record<string, unknown>));
}

export function headStatement(db: Kysely<DB>, key: SessionKey) {
  return HEADS.fill(
    db,
    "",
    () => db.selectFrom("sessions").select(HEAD_COLUMNS).where(isSession(SESSION)),
    key,
  );
}

const HEADS = new Templates<SessionKey, StatsRow & { next_seq: number }>();
const SESSION = sessionSlots(slotsOf<SessionKey>(), (key) => key);

/** @throws SessionNotFoundError */
export async function readHead(tables: Tables, key: SessionKey, context: Context): Promise<SessionHead> {
  const [row] = await read(tables, context, (db) => headStatement(db, key));
  if (row === undefined) throw new SessionNotFoundError(key.sessionId);
  return headOf(row);
}
