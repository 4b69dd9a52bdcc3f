import { randomUUID } from "node:crypto";
import { BACKGROUND_CONTEXT, type Context } from "../contract/context.ts";
import { CommitContentionError, SessionConflictError } from "../contract/errors.ts";
import { type CommitResult, type CommittedWrite, placeWrites, type Write } from "../contract/write.ts";
import { backOff } from "../session/back-off.ts";
import { checkBudgets } from "./budgets.ts";
import { type AdvanceOutcome, advanceOutcome, advanceStatement } from "./commit.ts";
import { CommitOutcomeUnknownError, DatabaseConnectionLostError } from "./errors.ts";
import { leavesOpen } from "./failure.ts";
import { findCommit } from "./find-commit.ts";
import { advanceTips, readHead, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { reserveBytes } from "./tenant-limits.ts";
import { serializable, type Tables, type Transaction } from "./transaction.ts";
import { addStats, batchWrites, type WriteBatch } from "./write-batch.ts";

/** Each lost attempt means that another writer has committed, so the session makes progress. */
const MAX_OVERTAKEN = 200;

/** How long to look for the outcome of a commit whose connection broke. */
const UNCERTAIN_FOR_MS = 30_000;

/** Large commits go in several statements of one transaction, which bounds the memory of both sides. */
const MAX_WRITES_PER_STATEMENT = 5_000;

/** A commit at one place in the session's sequence. */
interface Plan {
  readonly commitId: string;
  readonly timestamp: number;
  readonly from: SessionHead;
  readonly to: SessionHead;
  readonly writes: readonly CommittedWrite[];
  readonly batches: readonly WriteBatch[];
  /** Bytes to be reserved for the session first. */
  readonly reserves: number;
  /** The connection broke while this commit was under way, so it may have happened. */
  readonly isUncertain: boolean;
}

/** Somebody who writes a session. */
export interface Writer {
  readonly key: SessionKey;
  /** What the session was opened at. */
  readonly writerEpoch: number;
  /** Remembered between commits; the commit's compare-and-swap proves it right or replaces it. */
  head: SessionHead | undefined;
}

/**
 * Commits valid writes. If others came first, they go after theirs, or nowhere if they rest on the `basis`. A
 * commit whose connection broke is sent again: the compare-and-swap lets it happen once.
 *
 * @param basis what has been read; the session must not have moved since
 * @throws SessionConflictError, CommitContentionError, CommitOutcomeUnknownError, and what `advanceOutcome` throws
 */
export async function commitSession(
  tables: Tables,
  writer: Writer,
  writes: readonly Write[],
  basis: SessionHead | undefined,
  context: Context,
): Promise<CommitResult> {
  const { key } = writer;
  const timestamp = Date.now();
  const from = basis ?? writer.head ?? (await readHead(tables, key, context));
  let plan = planCommit(writes, from, timestamp);
  // Until the outcome is known, nothing is remembered.
  writer.head = undefined;
  let uncertainSince: number | undefined;
  for (let attempt = 1; attempt <= MAX_OVERTAKEN; attempt++) {
    let outcome: AdvanceOutcome;
    try {
      // Once it may have happened, it has to be reported.
      outcome = await advance(tables, writer, plan, plan.isUncertain ? BACKGROUND_CONTEXT : context);
    } catch (error) {
      uncertainSince ??= performance.now();
      if (!isLost(error, plan)) throw error;
      if (performance.now() - uncertainSince > UNCERTAIN_FOR_MS) {
        throw new CommitOutcomeUnknownError({ cause: error });
      }
      plan = { ...plan, isUncertain: true };
      await backOff(attempt);
      continue;
    }
    if (outcome.kind === "applied") {
      writer.head = plan.to;
      if (outcome.checksBudgets && isSpending(writes)) await checkBudgets(tables, key.tenantId);
      return resultOf(plan);
    }
    if (outcome.kind === "unreserved") {
      plan = { ...plan, reserves: plan.batches.reduce((sum, { bytes }) => sum + bytes, 0) };
      continue;
    }
    writer.head = outcome.current;
    if (plan.isUncertain && (await happened(tables, key, plan, outcome))) {
      // Whether the tenant has hard budgets was in the answer that got lost.
      if (isSpending(writes)) await checkBudgets(tables, key.tenantId);
      return resultOf(plan);
    }
    if (basis !== undefined) throw new SessionConflictError(key.sessionId);
    plan = planCommit(writes, outcome.current, timestamp);
    await backOff(attempt);
  }
  throw new CommitContentionError(MAX_OVERTAKEN);
}

function planCommit(writes: readonly Write[], from: SessionHead, timestamp: number): Plan {
  const placed = placeWrites(writes, from.nextSeq, timestamp);
  return {
    commitId: randomUUID(),
    timestamp,
    from,
    to: {
      nextSeq: from.nextSeq + placed.length,
      stats: addStats(from.stats, placed),
      tips: advanceTips(from.tips, placed),
    },
    writes: placed,
    batches: batchesOf(placed, timestamp),
    reserves: 0,
    isUncertain: false,
  };
}

function batchesOf(writes: readonly CommittedWrite[], timestamp: number): WriteBatch[] {
  const batches: WriteBatch[] = [];
  for (let start = 0; start < writes.length; start += MAX_WRITES_PER_STATEMENT) {
    const chunk = writes.slice(start, start + MAX_WRITES_PER_STATEMENT);
    batches.push(batchWrites(chunk, { timestamp, firstIndex: start }));
  }
  return batches;
}

function resultOf({ from, to, timestamp, writes }: Plan): CommitResult {
  return { firstSeq: from.nextSeq, seqs: writes.map(({ seq }) => seq), timestamp, stats: to.stats };
}

function advance(tables: Tables, writer: Writer, plan: Plan, context: Context): Promise<AdvanceOutcome> {
  return serializable(tables, context, async (trx) => {
    let checksBudgets = false;
    for (const index of plan.batches.keys()) {
      const outcome = await sendBatch(trx, tables, writer, plan, index);
      if (outcome.kind === "applied") {
        checksBudgets ||= outcome.checksBudgets;
        continue;
      }
      await trx.rollBack();
      return outcome;
    }
    return { kind: "applied", checksBudgets };
  });
}

/** What was spent is always recorded; what begins new work may be refused. */
function isWithinBudget(writes: readonly Write[] | readonly CommittedWrite[]): boolean {
  return isSpending(writes) || !writes.some(({ kind }) => kind === "entry");
}

function isSpending(writes: readonly Write[] | readonly CommittedWrite[]): boolean {
  return writes.some(({ kind }) => kind === "usage");
}

async function sendBatch(
  trx: Transaction,
  tables: Tables,
  { key, writerEpoch }: Writer,
  { commitId, timestamp, from, to, writes, batches, reserves, isUncertain }: Plan,
  index: number,
): Promise<AdvanceOutcome> {
  const isFirst = index === 0;
  const step = {
    commitId,
    writerEpoch,
    // The first one moves the head for all of them; the others find it there.
    from: isFirst ? from : to,
    to,
    modifiedAt: timestamp,
    batch: batches[index] as WriteBatch,
    isWithinBudget: isWithinBudget(writes),
    isUncertain: isFirst && isUncertain,
  };
  const statement = advanceStatement(tables, key, step);
  if (isFirst && reserves > 0) await trx.send(reserveBytes(tables, key, reserves));
  // A statement that applies nothing may be committed only if none before it did.
  const [[row]] = await (batches.length === 1 ? trx.commitWith(statement) : trx.send(statement));
  return advanceOutcome(row, key, step, tables.tenant?.slug ?? "");
}

/** The commit may have happened: in this attempt, or before an attempt that failed of something else. */
function isLost(error: unknown, { isUncertain }: Plan): boolean {
  return (
    error instanceof CommitOutcomeUnknownError ||
    error instanceof DatabaseConnectionLostError ||
    (isUncertain && leavesOpen(error))
  );
}

/** Whether an overtaken commit had happened before the others came. */
async function happened(
  tables: Tables,
  key: SessionKey,
  { commitId, writes }: Plan,
  { lastCommit }: Extract<AdvanceOutcome, { kind: "overtaken" }>,
): Promise<boolean> {
  if (lastCommit === commitId) return true;
  const found = await findCommit(tables, key, writes).catch((cause: unknown) => {
    throw new CommitOutcomeUnknownError({ cause });
  });
  if (found === "unknown") throw new CommitOutcomeUnknownError();
  return found === "committed";
}
