import { type ExpressionBuilder, expressionBuilder, type Kysely, sql } from "kysely";
import { idleLaneState } from "../contract/lane.ts";
import { FORK_POLICY } from "../session/fork-policy.ts";
import { withPath } from "./branch-path.ts";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, METADATA_COLUMNS } from "./session-row.ts";

/** What a branch fork copies: the path that ends with the entry, or with its parent. */
export interface ForkedBranch {
  readonly name: string;
  readonly tip: string | null;
  /** On the path to the tip; `null` where there is no entry. */
  readonly entryId: string | null;
  readonly position: "before" | "at";
}

const ENTRY_COLUMNS = [
  "entry_id",
  "parent_id",
  "seq",
  "timestamp",
  "type",
  "custom_type",
  "role",
  "provider",
  "model",
  "preview",
  "payload",
  "payload_bytes",
] as const;

/** A whole tree keeps its runs; a single path is one run. */
export function copyEntries(
  db: Kysely<DB>,
  source: SessionKey,
  target: SessionKey,
  branch: ForkedBranch | undefined,
) {
  const columns = ENTRY_COLUMNS.map((column) => `e.${column}` as const);
  const insert = (into: Pick<Kysely<DB>, "insertInto">) =>
    into.insertInto("entries").columns(["tenant_id", "session_id", ...ENTRY_COLUMNS, "run"]);
  if (branch === undefined) {
    return insert(db).expression((eb) =>
      eb
        .selectFrom("entries as e")
        .select(keyOf(target))
        .select([...columns, "e.run"])
        .where("e.tenant_id", "=", source.tenantId)
        .where("e.session_id", "=", source.sessionId),
    );
  }
  return insert(withPath(db, source, endOf(db, source, branch)) as unknown as Kysely<DB>).expression((eb) =>
    (eb as unknown as ExpressionBuilder<DB & { path: { run: number; upto: number } }, never>)
      .selectFrom("path")
      .innerJoinLateral(
        (run) =>
          run
            .selectFrom("entries as e")
            .select(columns)
            .where("e.tenant_id", "=", source.tenantId)
            .where("e.session_id", "=", source.sessionId)
            .where(isExactly("e.run", sql.ref("path.run")))
            .whereRef("e.seq", "<=", "path.upto")
            .orderBy("e.run")
            .orderBy("e.seq")
            .offset(ONE_PROBE)
            .as("e"),
        (join) => join.onTrue(),
      )
      .select(keyOf(target))
      .select([...columns, sql<number>`(select min(path.run) from path)`.as("run")]),
  );
}

/** The entry that the copied path ends with. */
function endOf(db: Kysely<DB>, source: SessionKey, { entryId, position }: ForkedBranch) {
  return position === "at"
    ? sql<string | null>`${entryId}`
    : sql<
        string | null
      >`(${db.selectFrom("entries").select("parent_id").where(isSession(source)).where(isExactly("entry_id", entryId)).orderBy("entry_id").limit(1)})`;
}

/** Current values, or elements of lists. */
export function copyState(
  db: Kysely<DB>,
  table: "scalar_values" | "list_values",
  source: SessionKey,
  target: SessionKey,
  branch: ForkedBranch | undefined,
) {
  const idle = sql<string>`${JSON.stringify(idleLaneState())}::json`;
  const tip =
    branch === undefined
      ? sql<string>`v.value`
      : sql<string>`coalesce(to_json(${endOf(db, source, branch)}::text), 'null'::json)`;
  return db
    .insertInto(table)
    .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
    .expression((eb) =>
      eb
        // Both tables have these columns.
        .selectFrom(`${table} as v` as "scalar_values as v")
        .select(keyOf(target))
        .select(["v.namespace", "v.key", "v.seq"])
        .select(
          sql<string>`case v.namespace when ${FORK_POLICY.laneState} then ${idle}
            when ${FORK_POLICY.tip} then ${tip} else v.value end`.as("value"),
        )
        .where("v.tenant_id", "=", source.tenantId)
        .where("v.session_id", "=", source.sessionId)
        .where(branch === undefined ? IS_KEPT_BY_TREE : isKeptByBranch(target, branch.name)),
    );
}

const { name, label, tip, laneConfig, laneState, reserved } = FORK_POLICY;

const IS_KEPT_BY_TREE = sql<boolean>`(
  v.namespace in (${sql.join([name, label, tip, laneConfig, laneState])})
  or not (v.namespace = ${reserved} or starts_with(v.namespace, ${`${reserved}.`}))
)`;

/** Labels go with their entries, which are already in the target. */
function isKeptByBranch(target: SessionKey, branch: string) {
  const eb = expressionBuilder<DB & { v: DB["scalar_values"] }, "v">();
  return eb.or([
    eb("v.namespace", "=", name),
    eb.and([eb("v.namespace", "in", [tip, laneConfig, laneState]), eb("v.key", "=", branch)]),
    eb.and([
      eb("v.namespace", "=", label),
      eb.exists(
        eb
          .selectFrom("entries as e")
          .select("e.entry_id")
          .where("e.tenant_id", "=", target.tenantId)
          .where("e.session_id", "=", target.sessionId)
          .where(isExactly("e.entry_id", sql.ref("v.key")))
          .orderBy("e.entry_id")
          .offset(ONE_PROBE),
      ),
    ]),
  ]);
}

/** Completes the row of the fork by what has been copied. */
export function completeFork(
  db: Kysely<DB>,
  target: SessionKey,
  origin: { next_seq: number; name: string | null },
) {
  return db
    .updateTable("sessions")
    .from((eb) =>
      eb
        .selectFrom("entries")
        .where(isSession(target))
        .select((copied) => [
          sql<number>`count(*) filter (where type = 'message')`.as("messages"),
          copied.fn.coalesce(copied.fn.sum<number>("payload_bytes"), sql<number>`0`).as("bytes"),
        ])
        .as("copied"),
    )
    .set((eb) => ({
      next_seq: origin.next_seq,
      name: origin.name,
      message_count: eb.ref("copied.messages"),
      first_message: eb
        .selectFrom("entries")
        .where(isSession(target))
        .select("preview")
        .where("preview", "is not", null)
        .orderBy("seq")
        .limit(1),
      stored_bytes: sql<number>`copied.bytes + ${stateBytes(db, "scalar_values", target)} + ${stateBytes(db, "list_values", target)}`,
    }))
    .where("sessions.tenant_id", "=", target.tenantId)
    .where("sessions.session_id", "=", target.sessionId)
    .returning(METADATA_COLUMNS.map((column) => `sessions.${column}` as const))
    .returning("sessions.message_count");
}

function stateBytes(db: Kysely<DB>, table: "scalar_values" | "list_values", target: SessionKey) {
  return sql<number>`(${db
    .selectFrom(table as "scalar_values")
    .where(isSession(target))
    .select(sql<number>`coalesce(sum(octet_length(value::text)), 0)`.as("bytes"))})`;
}

function keyOf({ tenantId, sessionId }: SessionKey) {
  return [
    sql<string>`${tenantId}::uuid`.as("tenant_id"),
    sql<string>`${sessionId}::text`.as("session_id"),
  ] as const;
}
