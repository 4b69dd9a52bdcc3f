import type { Compilable, Kysely, PostgresQueryResult, RawBuilder } from "kysely";
import type { Context } from "../contract/context.ts";
import { CommitContentionError } from "../contract/errors.ts";
import { backOff } from "../session/back-off.ts";
import { type Connection, ROLLBACK, type WireStatement } from "./connection.ts";
import { CommitOutcomeUnknownError } from "./errors.ts";
import { isAnswer, isRetryable, isServerAway, isStatementLost, typedFailure } from "./failure.ts";
import type { GuardedPool } from "./pool.ts";
import type { DB } from "./schema.generated.ts";
import type { Tenant } from "./tenant-id.ts";
import { tenantSetting } from "./tenant-setting.ts";
import { type Timeouts, timeoutSettings, timeoutsOf } from "./timeouts.ts";

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
  readonly preface?: Preface;
  readonly timeouts: Timeouts;
}

/** A statement that a read sends before its own, and what receives its rows. */
export interface Preface {
  statement(db: Kysely<DB>): Statement<unknown>;
  receive(rows: unknown[]): void;
}

export function prefaceOf<TRow>(
  statement: (db: Kysely<DB>) => Statement<TRow>,
  receive: (rows: TRow[]) => void,
): Preface {
  return { statement, receive: receive as (rows: unknown[]) => void };
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
  /** Sends statements with the commit right after them, so it must be the last call; resolves to the rows of each. */
  commitWith<TRows extends readonly unknown[]>(...statements: Statements<TRows>): Promise<RowsOf<TRows>>;
  /** Undoes what was sent, unless it is committed. */
  rollBack(): Promise<void>;
}

const MAX_ATTEMPTS = 20;

/** @throws the reason of the context's abort signal */
export function assertNotAborted(context: Context): void {
  const signal = context.abortSignal;
  signal?.throwIfAborted();
}

/**
 * Runs a reading statement in one round trip and resolves to its rows. Aborting the context rejects before it is
 * sent, and cancels it in the server while it runs.
 *
 * @param plans `sorted` for an order that no index has, `custom` for whole tables; otherwise the planner must find an
 *   index with the order
 */
export async function read<TRow>(
  tables: Tables,
  context: Context,
  statement: (db: Kysely<DB>) => Statement<TRow>,
  { plans = "generic" }: { plans?: Plans } = {},
): Promise<TRow[]> {
  const { db, preface } = tables;
  const compiled = [
    ...(preface === undefined ? [] : [compile(db, preface.statement(db))]),
    compile(db, statement(db)),
  ];
  const sent = [beginning(tables, "read only", plans, context), ...compiled, COMMIT];
  const patience = new Patience(tables, context);
  for (;;) {
    const outcomes = await withConnection(patience, (connection) => sendAbortably(connection, sent, context));
    const failure = firstFailure(outcomes);
    const signal = context.abortSignal;
    if (failure !== undefined) signal?.throwIfAborted();
    if (failure === undefined) {
      const results = outcomes.slice(1, -1).map(rowsOf);
      if (preface !== undefined) preface.receive(results[0] as unknown[]);
      return results.at(-1) as TRow[];
    }
    if (isStatementLost(failure.reason) && tables.pool.stopPreparing()) continue;
    await patience.waitOrThrow(failure.reason);
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

/**
 * Runs `work` in a READ COMMITTED transaction, for work that depends on no row but those it locks or adds.
 *
 * @param plans `custom` has every statement planned for its parameters, also those that foreign keys run
 */
export function readCommitted<T>(
  tables: Tables,
  context: Context,
  work: Work<T>,
  { plans = "generic" }: { plans?: Plans } = {},
): Promise<T> {
  return repeated(tables, context, "isolation level read committed", work, plans);
}

/**
 * Statements are written to be good for all parameters, and `generic` plans them once per connection. Left to itself,
 * the planner would plan the commit anew each time, since it takes the arrays for longer than they are: 2 ms of
 * planning for 0.4 ms of execution.
 */
type Plans = "generic" | "sorted" | "custom";

/**
 * Without statistics (sql/0007_planner.sql) the planner takes every result for small, and would rather read and sort
 * all of a session than follow the index that has the order. And since a plan is kept while tables grow, one that was
 * made while they were empty must use an index too.
 */
const PLANNED_ONCE = "set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off";
const PLANNER: Record<Plans, string> = {
  generic: `${PLANNED_ONCE}; set local enable_sort = off`,
  sorted: PLANNED_ONCE,
  custom: "set local plan_cache_mode = force_custom_plan",
};

/**
 * Runs `work` in a SERIALIZABLE transaction, again after a serialization failure or a deadlock, so it must
 * not have effects outside of the transaction. Once it is sent, a transaction is finished and reported.
 *
 * @throws CommitContentionError after too many attempts
 * @throws CommitOutcomeUnknownError when the connection broke while the commit was under way
 */
export function serializable<T>(tables: Tables, context: Context, work: Work<T>): Promise<T> {
  return repeated(tables, context, "isolation level serializable", work);
}

/**
 * Runs `work` on one snapshot (REPEATABLE READ), for work on whole sessions that decides nothing by what it reads:
 * SERIALIZABLE would make it fail as long as anybody commits.
 */
export function onSnapshot<T>(tables: Tables, context: Context, work: Work<T>): Promise<T> {
  return repeated(tables, context, "isolation level repeatable read", work);
}

/**
 * What `work` yields, read on one snapshot as {@link onSnapshot} does. The transaction, and the connection, last until
 * the last of it is taken or the caller goes no further. What was yielded cannot be taken back, so a failure is
 * repeated only before that.
 */
export async function* streamOnSnapshot<T>(
  tables: Tables,
  context: Context,
  work: (trx: Transaction) => AsyncIterable<T>,
): AsyncGenerator<T> {
  const begin = beginning(tables, "isolation level repeatable read, read only", "sorted", context);
  const patience = new Patience(tables, context);
  for (let isBegun = false; ; ) {
    const connection = await patience.connect();
    const trx = new SentTransaction(tables.db, connection, begin);
    let failure: unknown;
    try {
      for await (const item of work(trx)) {
        isBegun = true;
        yield item;
      }
      return;
    } catch (error) {
      if (isBegun) throw typedFailure(error, tables);
      failure = error;
    } finally {
      await trx.rollBack().catch(() => {});
      connection.release();
    }
    if (!isStatementLost(failure) || !tables.pool.stopPreparing()) await patience.waitOrThrow(failure);
  }
}

type Work<T> = (trx: Transaction) => Promise<T>;

async function repeated<T>(
  tables: Tables,
  context: Context,
  mode: string,
  work: Work<T>,
  plans: Plans = "generic",
): Promise<T> {
  const begin = beginning(tables, mode, plans, context);
  const patience = new Patience(tables, context);
  for (let attempt = 1; ; attempt++) {
    try {
      return await withConnection(patience, (connection) =>
        attemptOnce(new SentTransaction(tables.db, connection, begin), work),
      );
    } catch (error) {
      if (isStatementLost(error) && tables.pool.stopPreparing()) continue;
      if (!isRetryable(error)) {
        await patience.waitOrThrow(error);
        continue;
      }
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
    // The error of the work matters, not that the connection cannot roll back.
    await transaction.rollBack().catch(() => {});
    throw error;
  }
}

class SentTransaction implements Transaction {
  readonly db: Kysely<DB>;
  readonly #connection: Connection;
  readonly #begin: WireStatement;
  #state: "new" | "open" | "ended" = "new";

  constructor(db: Kysely<DB>, connection: Connection, begin: WireStatement) {
    this.db = db;
    this.#connection = connection;
    this.#begin = begin;
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
    const before = this.#state === "new" ? [this.#begin] : [];
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

/** Nothing runs that somebody planted in another schema; tables are named with theirs. */
export const SAFE_SEARCH_PATH = "set local search_path = pg_catalog, pg_temp";

const COMMIT: WireStatement = { sql: "commit", parameters: [] };

/** Everything that must not stay with the connection, in one message. */
function beginning(
  { tenant, timeouts }: Tables,
  mode: string,
  plans: Plans,
  context: Context,
): WireStatement {
  const parts = [
    `start transaction ${mode}`,
    SAFE_SEARCH_PATH,
    PLANNER[plans],
    // Compiling takes longer than anything that is sent.
    "set local jit = off",
    ...(tenant === undefined ? [] : [tenantSetting(tenant.tenantId)]),
    ...timeoutSettings(timeoutsOf(context, timeouts)),
  ];
  return { sql: parts.join("; "), parameters: [] };
}

function compile<TRow>(db: Kysely<DB>, statement: Statement<TRow>): WireStatement {
  // A query that is not raw brings its own database, and takes no argument.
  return (statement as RawBuilder<TRow>).compile(db);
}

/** Waits, for a bounded time, for a server that restarts or fails over. */
class Patience {
  readonly #tables: Tables;
  readonly #context: Context;
  readonly #until: number;
  #attempt = 0;

  constructor(tables: Tables, context: Context) {
    this.#tables = tables;
    this.#context = context;
    this.#until = performance.now() + timeoutsOf(context, tables.timeouts).reconnectMs;
  }

  async connect(): Promise<Connection> {
    for (;;) {
      assertNotAborted(this.#context);
      try {
        return await connectAbortably(this.#tables.pool, this.#context);
      } catch (error) {
        await this.waitOrThrow(error);
      }
    }
  }

  /** For when nothing has been committed. @throws the typed failure unless the server is away and may come back */
  async waitOrThrow(error: unknown): Promise<void> {
    const isAborted = this.#context.abortSignal?.aborted === true;
    if (isAborted || !isServerAway(error) || performance.now() > this.#until) {
      throw typedFailure(error, this.#tables);
    }
    this.#attempt++;
    await backOff(this.#attempt);
  }
}

async function withConnection<T>(
  patience: Patience,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await patience.connect();
  try {
    return await work(connection);
  } finally {
    connection.release();
  }
}

/** Those who wait for a connection get it in the order of their calls. */
async function connectAbortably(pool: GuardedPool, { abortSignal }: Context): Promise<Connection> {
  if (abortSignal === undefined) return pool.connect();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(abortSignal.reason);
  const connecting = pool.connect().then((connection) => {
    if (!abortSignal.aborted) return connection;
    connection.release();
    throw abortSignal.reason;
  });
  abortSignal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([connecting, aborted]);
  } finally {
    abortSignal.removeEventListener("abort", onAbort);
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

/** The cause of the other failures too: after it, the server refuses the rest of the transaction. */
function firstFailure(outcomes: readonly Outcome[]): PromiseRejectedResult | undefined {
  return outcomes.find((outcome) => outcome.status === "rejected");
}

function rowsOf(outcome: Outcome | undefined): unknown[] {
  return outcome?.status === "fulfilled" ? outcome.value.rows : [];
}
