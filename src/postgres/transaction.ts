import { setTimeout as sleep } from "node:timers/promises";
import type { Compilable, IsolationLevel, Kysely, PostgresQueryResult, RawBuilder } from "kysely";
import type { Context } from "../contract/context.ts";
import type { Connection, WireStatement } from "./connection.ts";
import { CommitContentionError, CommitOutcomeUnknownError } from "./errors.ts";
import { isAnswer, isRetryable, isStatementLost, typedFailure } from "./failure.ts";
import type { GuardedPool } from "./pool.ts";
import type { DB } from "./schema.generated.ts";
import type { Tenant } from "./tenant-id.ts";
import { tenantSetting } from "./tenant-setting.ts";

/**
 * The tables of one schema on one server, as one tenant sees them, or nobody. Every statement goes through
 * {@link read}, {@link write}, {@link readCommitted}, {@link serializable} or {@link onSnapshot}.
 */
export interface Tables {
  /** Builds statements; nothing is executed through it except migrations and an application's own queries. */
  readonly db: Kysely<DB>;
  readonly schema: string;
  readonly pool: GuardedPool;
  /** Whom row-level security lets through. */
  readonly tenant?: Tenant;
}

/** Something built with Kysely. */
export type Statement<TRow> = Compilable<TRow> | RawBuilder<TRow>;

type Statements<TRows extends readonly unknown[]> = { [I in keyof TRows]: Statement<TRows[I]> };
type RowsOf<TRows extends readonly unknown[]> = { [I in keyof TRows]: TRows[I][] };

/** A transaction; its beginning and the tenant go to the server with its first statements. */
export interface Transaction {
  readonly db: Kysely<DB>;
  /** Sends statements together and resolves to the rows of each. */
  send<TRows extends readonly unknown[]>(...statements: Statements<TRows>): Promise<RowsOf<TRows>>;
  /** The same with the commit right behind them, so it must be the last that is sent. */
  commitWith<TRows extends readonly unknown[]>(...statements: Statements<TRows>): Promise<RowsOf<TRows>>;
  /** Undoes what was sent, unless it is committed. */
  rollBack(): Promise<void>;
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
 * Runs a reading statement in one round trip and resolves to its rows. Aborting the context rejects before it is
 * sent, and cancels it in the server while it runs.
 */
export async function read<TRow>(
  tables: Tables,
  context: Context,
  statement: (db: Kysely<DB>) => Statement<TRow>,
): Promise<TRow[]> {
  const compiled = compile(tables.db, statement(tables.db));
  const sent = tables.tenant === undefined ? [compiled] : [beginning(tables, "read only"), compiled, COMMIT];
  for (;;) {
    assertNotAborted(context);
    const outcomes = await withConnection(tables, (connection) => sendAbortably(connection, sent, context));
    const failure = firstFailure(outcomes);
    const signal = context.abortSignal;
    if (failure !== undefined && signal?.aborted) throw abortReason(signal);
    if (failure === undefined) return rowsOf(outcomes[sent.length === 1 ? 0 : 1]) as TRow[];
    if (!(isStatementLost(failure.reason) && tables.pool.stopPreparing())) {
      throw typedFailure(failure.reason, tables);
    }
  }
}

/** Runs one writing statement in a READ COMMITTED transaction of its own, in one round trip. */
export async function write<TRow>(
  tables: Tables,
  context: Context,
  statement: (db: Kysely<DB>) => Statement<TRow>,
): Promise<TRow[]> {
  const [rows] = await readCommitted(tables, context, (trx) => trx.commitWith<[TRow]>(statement(trx.db)));
  return rows;
}

/** Runs `work` in a READ COMMITTED transaction, for work that depends on no row but those it locks or adds. */
export function readCommitted<T>(tables: Tables, context: Context, work: Work<T>): Promise<T> {
  return repeated(tables, context, "read committed", work);
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

type Work<T> = (trx: Transaction) => Promise<T>;

async function repeated<T>(
  tables: Tables,
  context: Context,
  isolationLevel: IsolationLevel,
  work: Work<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    assertNotAborted(context);
    try {
      return await withConnection(tables, (connection) =>
        attemptOnce(new SentTransaction(tables, connection, isolationLevel), work),
      );
    } catch (error) {
      if (isStatementLost(error) && tables.pool.stopPreparing()) continue;
      if (!isRetryable(error)) throw typedFailure(error, tables);
      if (attempt === MAX_ATTEMPTS) throw new CommitContentionError(attempt, { cause: error });
      await backOff(attempt);
    }
  }
}

async function attemptOnce<T>(transaction: SentTransaction, work: Work<T>): Promise<T> {
  try {
    const result = await work(transaction);
    await transaction.commit();
    return result;
  } catch (error) {
    // What the work failed of is what matters, not that the connection cannot roll back.
    await transaction.rollBack().catch(() => {});
    throw error;
  }
}

class SentTransaction implements Transaction {
  readonly db: Kysely<DB>;
  readonly #tables: Tables;
  readonly #connection: Connection;
  readonly #isolationLevel: IsolationLevel;
  #state: "new" | "open" | "ended" = "new";

  constructor(tables: Tables, connection: Connection, isolationLevel: IsolationLevel) {
    this.db = tables.db;
    this.#tables = tables;
    this.#connection = connection;
    this.#isolationLevel = isolationLevel;
  }

  async send<TRows extends readonly unknown[]>(...statements: Statements<TRows>): Promise<RowsOf<TRows>> {
    return this.#send(statements, { isLast: false }) as Promise<RowsOf<TRows>>;
  }

  async commitWith<TRows extends readonly unknown[]>(
    ...statements: Statements<TRows>
  ): Promise<RowsOf<TRows>> {
    return this.#send(statements, { isLast: true }) as Promise<RowsOf<TRows>>;
  }

  /** Commits what was sent, unless that has happened. */
  async commit(): Promise<void> {
    if (this.#state === "open") await this.#send([], { isLast: true });
  }

  async rollBack(): Promise<void> {
    if (this.#state !== "open") return;
    this.#state = "ended";
    const failure = firstFailure(await this.#connection.send([ROLLBACK]));
    if (failure === undefined) return;
    this.#connection.discard();
    throw failure.reason;
  }

  async #send(
    statements: readonly Statement<unknown>[],
    { isLast }: { isLast: boolean },
  ): Promise<unknown[][]> {
    const compiled = statements.map((statement) => compile(this.db, statement));
    const before =
      this.#state === "new" ? [beginning(this.#tables, `isolation level ${this.#isolationLevel}`)] : [];
    this.#state = isLast ? "ended" : "open";
    const outcomes = await this.#connection.send([...before, ...compiled, ...(isLast ? [COMMIT] : [])]);
    const failure = firstFailure(outcomes);
    if (failure === undefined) {
      return outcomes.slice(before.length, before.length + compiled.length).map(rowsOf);
    }
    // The commit was on its way, and nothing came back that would say what became of it.
    if (isLast && !isAnswer(failure.reason)) throw new CommitOutcomeUnknownError({ cause: failure.reason });
    throw failure.reason;
  }
}

const COMMIT: WireStatement = { sql: "commit", parameters: [] };
const ROLLBACK: WireStatement = { sql: "rollback", parameters: [] };

function beginning({ tenant }: Tables, mode: string): WireStatement {
  const begin = `start transaction ${mode}`;
  return {
    sql: tenant === undefined ? begin : `${begin}; ${tenantSetting(tenant.tenantId)}`,
    parameters: [],
  };
}

function compile<TRow>(db: Kysely<DB>, statement: Statement<TRow>): WireStatement {
  // A query that is not raw brings its own database, and takes no argument.
  return (statement as RawBuilder<TRow>).compile(db);
}

async function withConnection<T>(tables: Tables, work: (connection: Connection) => Promise<T>): Promise<T> {
  let connection: Connection;
  try {
    connection = await tables.pool.connect();
  } catch (error) {
    throw typedFailure(error, tables);
  }
  try {
    return await work(connection);
  } finally {
    connection.release();
  }
}

async function sendAbortably(
  connection: Connection,
  statements: readonly WireStatement[],
  { abortSignal }: Context,
): Promise<Outcome[]> {
  if (abortSignal === undefined) return connection.send(statements);
  let cancelled: Promise<void> | undefined;
  const cancel = () => {
    cancelled = connection.cancel();
  };
  abortSignal.addEventListener("abort", cancel, { once: true });
  try {
    return await connection.send(statements);
  } finally {
    abortSignal.removeEventListener("abort", cancel);
    // The next user of the connection must not be hit.
    await cancelled;
  }
}

type Outcome = PromiseSettledResult<PostgresQueryResult<unknown>>;

/** What the others failed of as well: after it, the server refuses all of the transaction. */
function firstFailure(outcomes: readonly Outcome[]): PromiseRejectedResult | undefined {
  return outcomes.find((outcome) => outcome.status === "rejected");
}

function rowsOf(outcome: Outcome | undefined): unknown[] {
  return outcome?.status === "fulfilled" ? outcome.value.rows : [];
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
