import type { Compilable, Kysely, RawBuilder } from "kysely";
import { BACKGROUND_CONTEXT, type Context } from "../contract/context.ts";
import { CommitContentionError } from "../contract/errors.ts";
import { backOff } from "../session/back-off.ts";
import type { Connection } from "./connection.ts";
import { CommitOutcomeUnknownError } from "./errors.ts";
import { isAnswer, isRetryable, isServerAway, isStatementLost, leavesOpen, typedFailure } from "./failure.ts";
import type { WireStatement } from "./pipeline.ts";
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
  const begin = beginning(tables, "read only", plans, context);
  const patience = new Patience(tables, context);
  let answers: unknown[][] | undefined;
  while (answers === undefined) {
    try {
      answers = await withConnection(patience, (connection) =>
        sendAbortably(connection, [...begin, ...compiled, COMMIT], context),
      );
    } catch (error) {
      const signal = context.abortSignal;
      signal?.throwIfAborted();
      if (!isStatementLost(error) || !tables.pool.stopPreparing()) await patience.waitOrThrow(error);
    }
  }
  const results = answers.slice(begin.length, -1);
  if (preface !== undefined) preface.receive(results[0] as unknown[]);
  return results.at(-1) as TRow[];
}

/** Runs one writing statement in a READ COMMITTED transaction of its own, in one round trip. */
export async function write<TRow>(
  tables: Tables,
  context: Context,
  statement: (db: Kysely<DB>) => Statement<TRow>,
  options: Repetition = {},
): Promise<TRow[]> {
  const work = (trx: Transaction) => trx.commitWith<[TRow]>(statement(trx.db));
  const [rows] = await readCommitted(tables, context, work, options);
  return rows;
}

interface Repetition {
  /**
   * Whether it may be done twice, so that it is done again when nobody knows whether it was, for up to
   * {@link UNCERTAIN_FOR_MS} whatever the context says. Default false.
   */
  readonly isRepeatable?: boolean;
}

interface WorkOptions extends Repetition {
  /** Default `generic`; `custom` has every statement planned for its parameters, also those that foreign keys run. */
  readonly plans?: Plans;
}

/** For how long the outcome of something whose connection broke is looked for. */
export const UNCERTAIN_FOR_MS = 30_000;

/** Runs `work` in a READ COMMITTED transaction, for work that depends on no row but those it locks or adds. */
export function readCommitted<T>(
  tables: Tables,
  context: Context,
  work: Work<T>,
  options: WorkOptions = {},
): Promise<T> {
  return repeated(tables, context, "isolation level read committed", work, options);
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
const PLANNED_ONCE = ["set local plan_cache_mode = force_generic_plan", "set local enable_seqscan = off"];
const PLANNER: Record<Plans, readonly string[]> = {
  generic: [...PLANNED_ONCE, "set local enable_sort = off"],
  sorted: PLANNED_ONCE,
  custom: ["set local plan_cache_mode = force_custom_plan"],
};

/**
 * Runs `work` in a SERIALIZABLE transaction, again after a serialization failure or a deadlock, so it must
 * not have effects outside of the transaction. Once it is sent, a transaction is finished and reported.
 *
 * @throws CommitContentionError after too many attempts
 * @throws CommitOutcomeUnknownError when the connection broke while the commit was under way
 */
export function serializable<T>(
  tables: Tables,
  context: Context,
  work: Work<T>,
  options: Repetition = {},
): Promise<T> {
  return repeated(tables, context, "isolation level serializable", work, options);
}

/**
 * Runs `work` on one snapshot (REPEATABLE READ), for work on whole sessions that decides nothing by what it reads:
 * SERIALIZABLE would make it fail as long as anybody commits.
 */
export function onSnapshot<T>(
  tables: Tables,
  context: Context,
  work: Work<T>,
  options: Repetition = {},
): Promise<T> {
  return repeated(tables, context, "isolation level repeatable read", work, options);
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
      await connection.rollBack();
      connection.release();
    }
    if (!isStatementLost(failure) || !tables.pool.stopPreparing()) await patience.waitOrThrow(failure);
  }
}

/** @param isUncertain whether it may have been done before, by an attempt whose answer got lost */
type Work<T> = (trx: Transaction, isUncertain: boolean) => Promise<T>;

async function repeated<T>(
  tables: Tables,
  context: Context,
  mode: string,
  work: Work<T>,
  { plans = "generic", isRepeatable = false }: WorkOptions = {},
): Promise<T> {
  const begin = beginning(tables, mode, plans, context);
  let patience = new Patience(tables, context);
  let lost: CommitOutcomeUnknownError | undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      return await withConnection(patience, (connection) =>
        attemptOnce(new SentTransaction(tables.db, connection, begin), (trx) =>
          work(trx, lost !== undefined),
        ),
      );
    } catch (error) {
      if (isStatementLost(error) && tables.pool.stopPreparing()) continue;
      if (isRepeatable && error instanceof CommitOutcomeUnknownError) {
        // It may have happened, so now it has to be reported.
        if (lost === undefined) patience = new Patience(tables, BACKGROUND_CONTEXT, UNCERTAIN_FOR_MS);
        lost = error;
      } else if (!isRetryable(error)) {
        await patience.waitOrThrow(error).catch((failure) => {
          throw lost !== undefined && leavesOpen(failure) ? lost : failure;
        });
        continue;
      }
      if (attempt === MAX_ATTEMPTS) throw lost ?? new CommitContentionError(attempt, { cause: error });
      await backOff(attempt);
    }
  }
}

async function attemptOnce<T>(
  transaction: SentTransaction,
  work: (trx: Transaction) => Promise<T>,
): Promise<T> {
  const result = await work(transaction);
  await transaction.commit();
  return result;
}

class SentTransaction implements Transaction {
  readonly db: Kysely<DB>;
  readonly #connection: Connection;
  readonly #begin: readonly WireStatement[];
  #state: "new" | "open" | "ended" = "new";

  constructor(db: Kysely<DB>, connection: Connection, begin: readonly WireStatement[]) {
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
    this.#state = "ended";
    await this.#connection.rollBack();
  }

  async #send(
    statements: readonly Statement<unknown>[],
    { isLast }: { isLast: boolean },
  ): Promise<unknown[][]> {
    const before = this.#state === "new" ? this.#begin : [];
    const compiled = statements.map((statement) => compile(this.db, statement));
    this.#state = isLast ? "ended" : "open";
    try {
      const rows = await this.#connection.send([...before, ...compiled, ...(isLast ? [COMMIT] : [])]);
      return rows.slice(before.length, before.length + compiled.length);
    } catch (error) {
      // The commit was on its way, and nothing came back that would say what became of it.
      if (isLast && !isAnswer(error)) throw new CommitOutcomeUnknownError({ cause: error });
      throw error;
    }
  }
}

/** Nothing runs that somebody planted in another schema; tables are named with theirs. */
export const SAFE_SEARCH_PATH = "set local search_path = pg_catalog, pg_temp";

const COMMIT: WireStatement = { sql: "commit", parameters: [] };

/** Everything that must not stay with the connection. */
function beginning(
  { tenant, timeouts }: Tables,
  mode: string,
  plans: Plans,
  context: Context,
): WireStatement[] {
  const constant = [
    `start transaction ${mode}`,
    SAFE_SEARCH_PATH,
    ...PLANNER[plans],
    // Compiling takes longer than anything that is sent.
    "set local jit = off",
  ];
  const unique = [
    ...(tenant === undefined ? [] : [tenantSetting(tenant.tenantId)]),
    ...timeoutSettings(timeoutsOf(context, timeouts)),
  ];
  return [
    ...constant.map((sql) => ({ sql, parameters: [] })),
    ...unique.map((sql) => ({ sql, parameters: [], isUnique: true })),
  ];
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

  constructor(tables: Tables, context: Context, forMs = timeoutsOf(context, tables.timeouts).reconnectMs) {
    this.#tables = tables;
    this.#context = context;
    this.#until = performance.now() + forMs;
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

/** Whatever happens, no transaction stays with the connection. */
async function withConnection<T>(
  patience: Patience,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await patience.connect();
  try {
    return await work(connection);
  } finally {
    await connection.rollBack();
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
): Promise<unknown[][]> {
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
