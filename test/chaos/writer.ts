/**
 * A program that writes to shared sessions whatever happens to its connections, until its standard input ends:
 *
 * node writer.ts <a JSON object of WriterOptions>
 *
 * It says when it begins, and ends with 1 at any error that a caller should never see.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  appendList,
  BACKGROUND_CONTEXT,
  type Branch,
  branchTip,
  type Context,
  type Database,
  emptyUsage,
  insertEntry,
  insertUsage,
  list,
  openDatabase,
  type PgSession,
  type PgSessionRepo,
  PiSessionError,
  setValue,
  value,
  withAbortSignal,
} from "../../src/index.ts";
import { type Acknowledged, type Attempt, Journal, KINDS, type Outcome } from "./journal.ts";
import { Random } from "./random.ts";

export interface WriterOptions {
  connectionString: string;
  schema: string;
  seed: number;
  /** `w3.1` is the third writer after its first death. */
  name: string;
  sessions: readonly string[];
  journal: string;
}

/** Errors that a caller has to expect while servers die, and that say that nothing was committed. */
const REFUSALS: ReadonlySet<string> = new Set([
  "database_unreachable",
  "database_connection_lost",
  "commit_contention",
  "session_conflict",
  "operation_timeout",
]);
const UNKNOWN = "commit_outcome_unknown";

const options = JSON.parse(process.argv[2] as string) as WriterOptions;
const random = new Random(options.seed, "writer", options.name);
const journal = new Journal(options.journal);
let isStopping = false;
process.stdin.on("end", () => {
  isStopping = true;
});
process.stdin.resume();

const database: Database = await patiently(() =>
  openDatabase({
    connectionString: options.connectionString,
    schema: options.schema,
    applicationName: `chaos ${options.name}`,
    // Some have little patience.
    timeouts: random.next() < 0.5 ? { statementMs: 20 + random.below(200) } : {},
  }),
);
const repo: PgSessionRepo = await patiently(() => database.repo("default"));
const sessions = new Map<string, { session: PgSession; main: Branch }>();
for (const id of options.sessions) await reopen(id);
process.stdout.write("writing\n");

for (let number = 0; !isStopping; number++) {
  const id = random.pick(options.sessions);
  if (random.next() < 0.02) await reopen(id);
  const { session, main } = sessions.get(id) ?? (await reopen(id));
  const attempt: Attempt = { token: `${options.name}-${number}`, session: id, kind: random.pick(KINDS) };
  journal.tries(attempt);
  const patience = random.next() < 0.05 ? AbortSignal.timeout(random.below(50)) : undefined;
  const context = patience === undefined ? BACKGROUND_CONTEXT : withAbortSignal(patience, BACKGROUND_CONTEXT);
  const outcome = await outcomeOf(() => write(attempt, session, main, context));
  journal.ends(attempt.token, outcome ?? { is: "refused", code: "aborted" });
}
await database.close();
journal.close();

/** `undefined` where the signal has ended it, and nothing was committed. */
async function outcomeOf(work: () => Promise<Acknowledged>): Promise<Outcome | undefined> {
  try {
    return { is: "acknowledged", what: await work() };
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") return undefined;
    if (!(error instanceof PiSessionError)) throw error;
    const { code } = error;
    if (code === UNKNOWN) return { is: "unknown", code };
    if (REFUSALS.has(code)) return { is: "refused", code };
    throw error;
  }
}

function write(
  { kind, token }: Attempt,
  session: PgSession,
  main: Branch,
  context: Context,
): Promise<Acknowledged> {
  switch (kind) {
    case "append":
      return append(token, session, main, context);
    case "commit":
      return commit(token, session, context);
    case "count":
      return count(token, session, context);
    case "increment":
      return increment(session, context);
    case "branch":
      return branch(token, session, main, context);
  }
}

async function append(
  token: string,
  session: PgSession,
  main: Branch,
  context: Context,
): Promise<Acknowledged> {
  const id = await main.appendMessage({ role: "user", content: token, timestamp: 1 }, context);
  // It is acknowledged now, whether or not its number can be read.
  const entry = await session.getEntry(id, BACKGROUND_CONTEXT).catch((error: unknown) => {
    if (error instanceof PiSessionError) return undefined;
    throw error;
  });
  return { entry: entry === undefined ? { id } : { id, seq: entry.seq } };
}

async function commit(token: string, session: PgSession, context: Context): Promise<Acknowledged> {
  const usage = { ...emptyUsage(), input: random.below(1000), totalTokens: 1 };
  usage.cost.total = random.next() / 7;
  if (random.next() < 0.5) Object.assign(usage, { reasoning: random.below(10) });
  const isRoot = random.next() < 0.3;
  return session.mutate(async (mutator) => {
    const tip = isRoot ? null : ((await mutator.getValue(branchTip("main"), context))?.value ?? null);
    const { seqs } = await mutator.commit(
      [
        insertEntry({ id: `e-${token}`, parentId: tip, type: "custom", customType: "commit", data: token }),
        insertUsage({ id: `u-${token}`, usage, entryId: `e-${token}`, adjustment: false }),
        setValue(value("chaos.last"), token),
        appendList(list("chaos.log"), token),
      ],
      context,
    );
    const [entry, row, , element] = seqs as [number, number, number, number];
    return {
      entry: { id: `e-${token}`, seq: entry },
      usage: { id: `u-${token}`, seq: row },
      element: { seq: element },
    };
  }, context);
}

async function count(token: string, session: PgSession, context: Context): Promise<Acknowledged> {
  return session.mutate(async (mutator) => {
    const next = ((await mutator.getValue(value<number>("chaos.count"), context))?.value ?? 0) + 1;
    const { seqs } = await mutator.commit(
      [
        setValue(value<number>("chaos.count"), next),
        insertEntry({
          id: `c-${token}`,
          parentId: null,
          type: "custom",
          customType: "count",
          data: { token, next },
        }),
      ],
      context,
    );
    return { entry: { id: `c-${token}`, seq: seqs[1] as number } };
  }, context);
}

async function increment(session: PgSession, context: Context): Promise<Acknowledged> {
  await session.mutate(async (mutator) => {
    const before = (await mutator.getValue(value<number>("chaos.increments"), context))?.value ?? 0;
    await mutator.commit([setValue(value<number>("chaos.increments"), before + 1)], context);
  }, context);
  return {};
}

async function branch(
  token: string,
  session: PgSession,
  main: Branch,
  context: Context,
): Promise<Acknowledged> {
  await session.createBranch(`b-${token}`, await main.getTipId(context), context);
  return {};
}

async function reopen(id: string): Promise<{ session: PgSession; main: Branch }> {
  await sessions.get(id)?.session.close(BACKGROUND_CONTEXT);
  sessions.delete(id);
  const session = await patiently(() => repo.open({ id }, BACKGROUND_CONTEXT));
  const main = await patiently(() => session.branch("main", BACKGROUND_CONTEXT));
  if (main === undefined) throw new Error(`the session ${id} has no branch main`);
  const opened = { session, main };
  sessions.set(id, opened);
  return opened;
}

/** Opening does not wait for a server that is away, or not for long. */
async function patiently<T>(open: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof PiSessionError && REFUSALS.has(error.code))) throw error;
      await sleep(20);
    }
  }
}
