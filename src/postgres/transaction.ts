import { setTimeout as sleep } from "node:timers/promises";
import type { AbortableQueryOptions, IsolationLevel, Kysely, Transaction } from "kysely";
import type { Context } from "../contract/context.ts";
import { CommitContentionError, CommitOutcomeUnknownError } from "./errors.ts";
import { isAnswer, isRetryable, typedFailure } from "./failure.ts";
import type { DB } from "./schema.generated.ts";

/** The tables of one schema on one server: every statement goes through {@link read}, {@link serializable} or
 * {@link onSnapshot}. */
export interface Tables {
  readonly db: Kysely<DB>;
  readonly schema: string;
}

const MAX_ATTEMPTS = 20;
const FIRST_DELAY_MS = 4;
const MAX_DELAY_MS = 250;

/** @throws the reason of the context's abort signal */
export function assertNotAborted(context: Context): void {
  const signal = context.abortSignal;
  if (signal?.aborted) throw abortReason(signal);
}

/**
 * Runs a reading statement. Aborting the context rejects before it is sent, and cancels it in the server
 * while it runs.
 */
export async function read<T>(
  tables: Tables,
  context: Context,
  statement: (db: Kysely<DB>, options: AbortableQueryOptions) => Promise<T>,
): Promise<T> {
  assertNotAborted(context);
  const signal = context.abortSignal;
  try {
    return await statement(tables.db, { signal, inflightQueryAbortStrategy: "cancel query" });
  } catch (error) {
    if (signal?.aborted) throw abortReason(signal);
    throw typedFailure(error, tables.schema);
  }
}

/**
 * Runs `work` in a SERIALIZABLE transaction, again after a serialization failure or a deadlock, so it must
 * not have effects outside of the transaction. Once it is sent, a transaction is finished and reported.
 *
 * @throws CommitContentionError after too many attempts
 * @throws CommitOutcomeUnknownError when the connection broke while the commit was under way
 */
export function serializable<T>(tables: Tables, context: Context, work: Work<T>): Promise<T> {
  return repeated(tables, context, "serializable", work);
}

/**
 * The same on one snapshot (REPEATABLE READ), for work on whole sessions that decides nothing by what it reads:
 * SERIALIZABLE would make it fail as long as anybody commits.
 */
export function onSnapshot<T>(tables: Tables, context: Context, work: Work<T>): Promise<T> {
  return repeated(tables, context, "repeatable read", work);
}

type Work<T> = (trx: Transaction<DB>) => Promise<T>;

async function repeated<T>(
  tables: Tables,
  context: Context,
  isolationLevel: IsolationLevel,
  work: Work<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    assertNotAborted(context);
    try {
      return await attemptOnce(tables, isolationLevel, work);
    } catch (error) {
      if (!isRetryable(error)) throw typedFailure(error, tables.schema);
      if (attempt === MAX_ATTEMPTS) throw new CommitContentionError(attempt, { cause: error });
      await backOff(attempt);
    }
  }
}

async function attemptOnce<T>(tables: Tables, isolationLevel: IsolationLevel, work: Work<T>): Promise<T> {
  let isCommitting = false;
  try {
    return await tables.db
      .transaction()
      .setIsolationLevel(isolationLevel)
      .execute(async (trx) => {
        const result = await work(trx);
        isCommitting = true;
        return result;
      });
  } catch (error) {
    if (isCommitting && !isAnswer(error)) throw new CommitOutcomeUnknownError({ cause: error });
    throw error;
  }
}

/** Waits longer after each attempt; jitter keeps transactions that failed together from meeting again. */
export async function backOff(attempt: number): Promise<void> {
  await sleep(Math.random() * Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt));
}

function abortReason(signal: AbortSignal): unknown {
  return signal.reason instanceof Error
    ? signal.reason
    : new DOMException("The operation was aborted", "AbortError");
}
