import { randomUUID } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { assertAddress, branchTip, laneConfig, laneState } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import {
  ForkError,
  InvalidOptionError,
  SessionExistsError,
  SessionNotFoundError,
} from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { ForkOptions } from "../contract/session.ts";
import { assertEntryId, isStorable } from "../contract/text.ts";
import { emptyUsage } from "../contract/usage.ts";
import { FORK_POLICY } from "../session/fork-policy.ts";
import { type Added, addOnce } from "./add-once.ts";
import { withPath } from "./branch-path.ts";
import { assertNewSession, insertSession } from "./create-session.ts";
import { detailOf, isRefusedFork, isTaken } from "./failure.ts";
import { completeFork, copyEntries, copyState, type ForkedBranch } from "./fork-copies.ts";
import { isExactly } from "./probe.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, metadataOf } from "./session-row.ts";
import { admitSession, chargeSession } from "./tenant-limits.ts";
import { onSnapshot, type Tables, type Transaction } from "./transaction.ts";

export interface Fork {
  source: SessionKey;
  target: SessionKey;
  options: ForkOptions;
  /** Milliseconds since the epoch. */
  createdAt: number;
}

/**
 * Copies a session inside the server, by FORK_POLICY, from one snapshot and in two round trips: one for what decides
 * how, one for the rest. Entries, values and list elements keep their `seq`, and the fork goes on from the source's
 * next one.
 *
 * @throws SessionNotFoundError, SessionExistsError, ForkError, InvalidOptionError, TenantSuspendedError,
 *   TenantLimitError, CommitOutcomeUnknownError
 */
export async function forkSession(tables: Tables, fork: Fork, context: Context): Promise<Added> {
  const { source, target, options, createdAt } = fork;
  assertOptions(options);
  const addition = { key: target, commitId: randomUUID(), createdAt };
  return addOnce(tables, addition, async (attempted) => {
    const work = (trx: Transaction, isUncertain: boolean) => {
      attempted(isUncertain);
      return copySession(trx, tables, fork, addition.commitId);
    };
    try {
      return await onSnapshot(tables, context, work, { isRepeatable: true });
    } catch (error) {
      if (isTaken(error, "sessions")) throw new SessionExistsError(target.sessionId);
      if (isRefusedFork(error) && options.scope === "branch") throw refusal(source, options, detailOf(error));
      throw error;
    }
  });
}

async function copySession(
  trx: Transaction,
  tables: Tables,
  { source, target, options, createdAt }: Fork,
  commitId: string,
): Promise<Added> {
  const origin = await readOrigin(trx, source, options);
  const branch = options.scope === "branch" ? selectBranch(source, options, origin) : undefined;
  const session = {
    id: target.sessionId,
    createdAt,
    parentSessionId: source.sessionId,
    ...(origin.cwd === null ? {} : { cwd: origin.cwd }),
    // A search that finds the source is to find its forks too.
    metadata: JSON.parse(origin.metadata) as ReadonlyJsonObject,
  };
  assertNewSession(session);
  const sent = await trx.commitWith<unknown[]>(
    admitSession(tables),
    ...(branch?.tip == null ? [] : [checkBranch(trx, tables, source, branch)]),
    insertSession(trx.db, target, session, commitId),
    ...(branch !== undefined && branch.tip === null ? [] : [copyEntries(trx.db, source, target, branch)]),
    copyState(trx.db, "scalar_values", source, target, branch),
    copyState(trx.db, "list_values", source, target, branch),
    completeFork(trx.db, target, origin),
    chargeSession(tables, target),
  );
  const [row] = sent.at(-2) as CompletedRow[];
  if (row === undefined) throw new SessionNotFoundError(target.sessionId);
  const stats = { messageCount: row.message_count, usage: emptyUsage() };
  return { metadata: metadataOf(row), head: { nextSeq: origin.next_seq, stats, tips: new Map() } };
}

type CompletedRow = Awaited<ReturnType<ReturnType<typeof completeFork>["execute"]>>[number];

/** @throws InvalidOptionError, InvalidTextError */
function assertOptions(options: ForkOptions): void {
  if (options.scope !== "branch" && options.scope !== "tree") {
    throw new InvalidOptionError("scope", (options as { scope?: unknown }).scope, "pass branch or tree");
  }
  if (options.scope === "tree") return;
  assertAddress(FORK_POLICY.tip, options.branch);
  if (options.entryId !== undefined) assertEntryId("entry id", options.entryId);
}

interface Origin {
  next_seq: number;
  cwd: string | null;
  name: string | null;
  metadata: string;
  /** JSON texts of the branch's values by namespace. */
  branch: ReadonlyMap<string, string>;
}

/** @throws SessionNotFoundError, ForkError */
async function readOrigin(trx: Transaction, source: SessionKey, options: ForkOptions): Promise<Origin> {
  const row = trx.db
    .selectFrom("sessions")
    .select(["next_seq", "cwd", "name", "metadata"])
    .where(isSession(source));
  const branch = trx.db
    .selectFrom("scalar_values")
    .select(["namespace", sql<string>`value::text`.as("value")])
    .where(isSession(source))
    .where("namespace", "in", [FORK_POLICY.tip, FORK_POLICY.laneConfig, FORK_POLICY.laneState])
    .where("key", "=", options.scope === "branch" ? options.branch : "");
  const [[found], [unknown], values] = await trx.send(row, unknownNamespaces(trx, source), branch);
  if (found === undefined) throw new SessionNotFoundError(source.sessionId);
  if (unknown !== undefined) {
    throw new ForkError(
      source.sessionId,
      `it holds state in the reserved namespace ${JSON.stringify(unknown.namespace)}, which this release does not know`,
      "delete that state or upgrade pi-session-postgres",
    );
  }
  return { ...found, branch: new Map(values.map(({ namespace, value }) => [namespace, value])) };
}

function unknownNamespaces({ db }: Transaction, source: SessionKey) {
  const { name, label, tip, laneConfig, laneState, dropped, droppedPrefixes, reserved } = FORK_POLICY;
  const startsWith = (prefix: string) => sql<boolean>`starts_with(namespace, ${sql.lit(prefix)})`;
  // Both tables have these columns.
  const of = (table: "scalar_values" | "list_values") =>
    db
      .selectFrom(table as "scalar_values")
      .select("namespace")
      .where(isSession(source))
      .where((eb) => eb.or([eb("namespace", "=", reserved), startsWith(`${reserved}.`)]))
      .where("namespace", "not in", [name, label, tip, laneConfig, laneState, dropped])
      .where((eb) => eb.not(eb.or(droppedPrefixes.map(startsWith))));
  return of("scalar_values").unionAll(of("list_values")).limit(1);
}

/** The branch must be a lane. That the entry is on it is checked where it is copied. */
function selectBranch(
  source: SessionKey,
  options: Extract<ForkOptions, { scope: "branch" }>,
  { branch: values }: Origin,
): ForkedBranch {
  const { branch, position = "at" } = options;
  const tipText = values.get(branchTip(branch).namespace);
  if (tipText === undefined) throw refusal(source, options, "branch");
  // A tip is a value, so anybody may have stored something that is not an entry id.
  const tip: unknown = JSON.parse(tipText);
  if (tip !== null && !isStorable(tip)) throw refusal(source, options, "tip");
  const entryId = options.entryId ?? tip;
  if (tip === null && entryId !== null) throw refusal(source, options, "entry");
  if (!values.has(laneConfig(branch).namespace) || !values.has(laneState(branch).namespace)) {
    throw refusal(source, options, "lane");
  }
  return { name: branch, tip, entryId, position };
}

/** Fails the transaction unless the tip is an entry, and the entry on the path to it. */
function checkBranch(
  { db }: Transaction,
  { schema }: Tables,
  source: SessionKey,
  { tip, entryId }: ForkedBranch,
): RawBuilder<unknown> {
  const path = withPath(db, source, tip as string)
    .selectFrom("path")
    .select(["path.run", "path.upto"]);
  const refuse = sql.id(schema, "refuse_fork");
  return sql`
    with walked as materialized (${path})
    select case
      when not exists (select from walked) then ${refuse}('tip')
      when not exists (
        select from ${sql.id(schema, "entries")} as e
        where e.tenant_id = ${source.tenantId} and e.session_id = ${source.sessionId} and ${isExactly("e.entry_id", entryId)}
          and exists (select from walked where walked.run = e.run and e.seq <= walked.upto)
        order by e.entry_id limit 1
      ) then ${refuse}('entry') end`;
}

function refusal(
  { sessionId }: SessionKey,
  { branch, entryId }: Extract<ForkOptions, { scope: "branch" }>,
  problem: string,
): ForkError {
  const named = JSON.stringify(branch);
  switch (problem) {
    case "branch":
      return new ForkError(sessionId, `it has no branch ${named}`, "name one of its branches");
    case "tip":
      return new ForkError(sessionId, `the tip of ${named} is no entry`, "set the tip to an entry");
    case "entry":
      return new ForkError(
        sessionId,
        `the entry ${JSON.stringify(entryId)} is not on the branch ${named}`,
        "name an entry of that branch",
      );
    default:
      return new ForkError(
        sessionId,
        `the branch ${named} is not a configured lane`,
        "fork the whole tree instead, or configure the lane first",
      );
  }
}
