import { type ExpressionBuilder, expressionBuilder, type Kysely, sql, type Transaction } from "kysely";
import { assertAddress, branchTip, laneConfig, laneState } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import { ForkError, InvalidOptionError, SessionNotFoundError } from "../contract/errors.ts";
import { idleLaneState } from "../contract/lane.ts";
import type { ForkOptions } from "../contract/session.ts";
import { assertEntryId, isStorable } from "../contract/text.ts";
import { emptyUsage } from "../contract/usage.ts";
import { FORK_POLICY } from "../session/fork-policy.ts";
import { withPath } from "./branch-path.ts";
import { createSession } from "./create-session.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, type PgSessionMetadata, type SessionHead } from "./session-row.ts";
import { onSnapshot, type Tables } from "./transaction.ts";

export interface Fork {
  source: SessionKey;
  target: SessionKey;
  options: ForkOptions;
  /** Milliseconds since the epoch. */
  createdAt: number;
}

/** What a branch fork copies: the path that ends with `tip`, or no entry if that is `null`. */
type CopiedBranch = { branch: string; tip: string | null };

/**
 * Copies a session inside the server, by FORK_POLICY, from one snapshot. Entries, values and list elements
 * keep their `seq`, and the fork goes on from the source's next one.
 *
 * @throws SessionNotFoundError, SessionExistsError, ForkError, InvalidOptionError
 */
export async function forkSession(
  tables: Tables,
  { source, target, options, createdAt }: Fork,
  context: Context,
): Promise<{ metadata: PgSessionMetadata; head: SessionHead }> {
  if (options.scope !== "branch" && options.scope !== "tree") {
    throw new InvalidOptionError("scope", (options as { scope?: unknown }).scope, "pass branch or tree");
  }
  return onSnapshot(tables, context, async (trx) => {
    const origin = await readOrigin(trx, source);
    await assertNoUnknownNamespace(trx, source);
    const copied = options.scope === "branch" ? await selectBranch(trx, source, options) : undefined;
    const metadata = await createSession(trx, target, {
      id: target.sessionId,
      createdAt,
      parentSessionId: source.sessionId,
      ...(origin.cwd === null ? {} : { cwd: origin.cwd }),
    });
    await copyEntries(trx, source, target, copied);
    await copyCurrentState(trx, "scalar_values", source, target, copied);
    await copyCurrentState(trx, "list_values", source, target, copied);
    const messageCount = await describeFork(trx, target, origin);
    return { metadata, head: { nextSeq: origin.next_seq, stats: { messageCount, usage: emptyUsage() } } };
  });
}

interface Origin {
  next_seq: number;
  cwd: string | null;
  name: string | null;
}

async function readOrigin(trx: Transaction<DB>, source: SessionKey): Promise<Origin> {
  const row = await trx
    .selectFrom("sessions")
    .select(["next_seq", "cwd", "name"])
    .where(isSession(source))
    .executeTakeFirst();
  if (row === undefined) throw new SessionNotFoundError(source.sessionId);
  return row;
}

async function assertNoUnknownNamespace(trx: Transaction<DB>, source: SessionKey): Promise<void> {
  for (const table of ["scalar_values", "list_values"] as const) {
    const unknown = await trx
      .selectFrom(table)
      .select("namespace")
      .where(isSession(source))
      .where(isReserved)
      .where("namespace", "not in", KNOWN_NAMESPACES)
      .where((eb) => eb.not(eb.or(FORK_POLICY.droppedPrefixes.map((prefix) => startsWith(prefix)))))
      .limit(1)
      .executeTakeFirst();
    if (unknown !== undefined) {
      throw new ForkError(
        source.sessionId,
        `it holds state in the reserved namespace ${JSON.stringify(unknown.namespace)}, which this release does not know`,
        "delete that state or upgrade pi-session-postgres",
      );
    }
  }
}

const { name, label, tip, laneConfig: config, laneState: state, dropped, reserved } = FORK_POLICY;
const KNOWN_NAMESPACES = [name, label, tip, config, state, dropped];
const isReserved = sql<boolean>`(namespace = ${sql.lit(reserved)} or starts_with(namespace, ${sql.lit(`${reserved}.`)}))`;
const startsWith = (prefix: string) => sql<boolean>`starts_with(namespace, ${sql.lit(prefix)})`;

/** The branch must be a lane, and the entry must be on it. */
async function selectBranch(
  trx: Transaction<DB>,
  source: SessionKey,
  options: Extract<ForkOptions, { scope: "branch" }>,
): Promise<CopiedBranch> {
  const { branch } = options;
  assertAddress(tip, branch);
  if (options.entryId !== undefined) assertEntryId("entry id", options.entryId);
  const { sessionId } = source;
  const refuse = (problem: string, remedy: string) => new ForkError(sessionId, problem, remedy);
  const current = await laneValues(trx, source, branch);
  if (current.tip === undefined) {
    throw refuse(`it has no branch ${JSON.stringify(branch)}`, "name one of its branches");
  }
  if (current.tip !== null && !isStorable(current.tip)) {
    throw refuse(`the tip of ${JSON.stringify(branch)} is no entry`, "set the tip to an entry");
  }
  const { path, isComplete } = await pathBetween(trx, source, current.tip, options.entryId ?? current.tip);
  if (!isComplete)
    throw refuse(`the tip of ${JSON.stringify(branch)} is no entry`, "set the tip to an entry");
  if (path === undefined) {
    throw refuse(
      `the entry ${JSON.stringify(options.entryId)} is not on the branch ${JSON.stringify(branch)}`,
      "name an entry of that branch",
    );
  }
  if (!current.isLane) {
    throw refuse(
      `the branch ${JSON.stringify(branch)} is not a configured lane`,
      "fork the whole tree instead, or configure the lane first",
    );
  }
  return { branch, tip: options.position === "before" ? path.parentId : path.entryId };
}

async function laneValues(
  trx: Transaction<DB>,
  source: SessionKey,
  branch: string,
): Promise<{ tip: string | null | undefined; isLane: boolean }> {
  const rows = await trx
    .selectFrom("scalar_values")
    .select(["namespace", sql<string>`value::text`.as("value")])
    .where(isSession(source))
    .where("namespace", "in", [tip, config, state])
    .where("key", "=", branch)
    .execute();
  const textOf = (namespace: string) => rows.find((row) => row.namespace === namespace)?.value;
  const tipText = textOf(branchTip(branch).namespace);
  return {
    // Whatever was set there.
    tip: tipText === undefined ? undefined : JSON.parse(tipText),
    isLane:
      textOf(laneConfig(branch).namespace) !== undefined && textOf(laneState(branch).namespace) !== undefined,
  };
}

/** Finds `entryId` on the path from `tipId` to the root. */
async function pathBetween(
  trx: Transaction<DB>,
  source: SessionKey,
  tipId: string | null,
  entryId: string | null,
): Promise<{ path: { entryId: string | null; parentId: string | null } | undefined; isComplete: boolean }> {
  const path = entryId === null ? { entryId: null, parentId: null } : undefined;
  if (tipId === null) return { path, isComplete: true };
  const found = await withPath(trx, source, tipId)
    .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
    .leftJoin("entries as e", (join) =>
      join
        .on("e.tenant_id", "=", source.tenantId)
        .on("e.session_id", "=", source.sessionId)
        .on("e.entry_id", "=", entryId)
        .on(sql<boolean>`exists (select from path where path.run = e.run and e.seq <= path.upto)`),
    )
    .select([sql<boolean>`exists (select from path)`.as("known"), "e.entry_id", "e.parent_id"])
    .executeTakeFirstOrThrow();
  const onPath = found.entry_id === null ? path : { entryId: found.entry_id, parentId: found.parent_id };
  return { path: onPath, isComplete: found.known };
}

/** A whole tree keeps its runs; a single path is one run. */
async function copyEntries(
  trx: Transaction<DB>,
  source: SessionKey,
  target: SessionKey,
  copied: CopiedBranch | undefined,
): Promise<void> {
  if (copied?.tip === null) return;
  const isEntryOfSource = (eb: ExpressionBuilder<DB & { e: DB["entries"] }, "e">) =>
    eb.and([eb("e.tenant_id", "=", source.tenantId), eb("e.session_id", "=", source.sessionId)]);
  const columns = COPIED_ENTRY_COLUMNS.map((column) => `e.${column}` as const);
  const insert = (into: Pick<Kysely<DB>, "insertInto">) =>
    into.insertInto("entries").columns(["tenant_id", "session_id", ...COPIED_ENTRY_COLUMNS, "run"]);
  if (copied === undefined) {
    await insert(trx)
      .expression((eb) =>
        eb
          .selectFrom("entries as e")
          .select(targetColumns(target))
          .select([...columns, "e.run"])
          .where(isEntryOfSource),
      )
      .execute();
    return;
  }
  await insert(withPath(trx, source, copied.tip) as unknown as Kysely<DB>)
    .expression((eb) =>
      (eb as unknown as ExpressionBuilder<DB & { path: { run: number; upto: number } }, never>)
        .selectFrom("path")
        .innerJoinLateral(
          (run) =>
            run
              .selectFrom("entries as e")
              .select(columns)
              .where("e.tenant_id", "=", source.tenantId)
              .where("e.session_id", "=", source.sessionId)
              .whereRef("e.run", "=", "path.run")
              .whereRef("e.seq", "<=", "path.upto")
              .orderBy("e.seq")
              .offset(sql<number>`0`)
              .as("e"),
          (join) => join.onTrue(),
        )
        .select(targetColumns(target))
        .select([...columns, sql<number>`(select min(path.run) from path)`.as("run")]),
    )
    .execute();
}

const COPIED_ENTRY_COLUMNS = [
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
] as const;

async function copyCurrentState(
  trx: Transaction<DB>,
  table: "scalar_values" | "list_values",
  source: SessionKey,
  target: SessionKey,
  copied: CopiedBranch | undefined,
): Promise<void> {
  const idle = sql<string>`${JSON.stringify(idleLaneState())}::json`;
  const tipText = sql<string>`${JSON.stringify(copied?.tip ?? null)}::json`;
  await trx
    .insertInto(table)
    .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
    .expression((eb) =>
      eb
        // Both tables have these columns.
        .selectFrom(`${table} as v` as "scalar_values as v")
        .select(targetColumns(target))
        .select(["v.namespace", "v.key", "v.seq"])
        .select(
          sql<string>`case
            when v.namespace = ${state} then ${idle}
            when v.namespace = ${tip} and ${copied !== undefined} then ${tipText}
            else v.value end`.as("value"),
        )
        .where("v.tenant_id", "=", source.tenantId)
        .where("v.session_id", "=", source.sessionId)
        .where(copied === undefined ? IS_KEPT_BY_TREE : isKeptByBranch(target, copied.branch)),
    )
    .execute();
}

const IS_KEPT_BY_TREE = sql<boolean>`(
  v.namespace in (${sql.join([name, label, tip, config, state])})
  or not (v.namespace = ${reserved} or starts_with(v.namespace, ${`${reserved}.`}))
)`;

/** Labels go with their entries, which are already in the target. */
function isKeptByBranch(target: SessionKey, branch: string) {
  const eb = expressionBuilder<DB & { v: DB["scalar_values"] }, "v">();
  return eb.or([
    eb("v.namespace", "=", name),
    eb.and([eb("v.namespace", "in", [tip, config, state]), eb("v.key", "=", branch)]),
    eb.and([
      eb("v.namespace", "=", label),
      eb.exists(
        eb
          .selectFrom("entries as e")
          .select("e.entry_id")
          .where("e.tenant_id", "=", target.tenantId)
          .where("e.session_id", "=", target.sessionId)
          .whereRef("e.entry_id", "=", "v.key"),
      ),
    ]),
  ]);
}

/** Completes the fork's row. Returns its number of messages. */
async function describeFork(trx: Transaction<DB>, target: SessionKey, origin: Origin): Promise<number> {
  const entriesOf = (eb: ExpressionBuilder<DB, "sessions">) =>
    eb.selectFrom("entries").where(isSession(target));
  const row = await trx
    .updateTable("sessions")
    .set((eb) => ({
      next_seq: origin.next_seq,
      name: origin.name,
      message_count: entriesOf(eb)
        .select(eb.fn.countAll<number>().as("messages"))
        .where("type", "=", "message"),
      first_message: entriesOf(eb).select("preview").where("preview", "is not", null).orderBy("seq").limit(1),
    }))
    .where(isSession(target))
    .returning("message_count")
    .executeTakeFirstOrThrow();
  return row.message_count;
}

function targetColumns({ tenantId, sessionId }: SessionKey) {
  return [
    sql<string>`${tenantId}::uuid`.as("tenant_id"),
    sql<string>`${sessionId}::text`.as("session_id"),
  ] as const;
}
