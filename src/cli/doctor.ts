import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { PiSessionError, SessionNotFoundError } from "../contract/errors.ts";
import type { Database } from "../postgres/database.ts";
import { DatabaseNotMigratedError, DatabaseTooNewError } from "../postgres/errors.ts";
import type { IsolationCheck } from "../postgres/isolation.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import { toldError } from "./advice.ts";
import {
  type Connection,
  type ConnectionOptions,
  connect,
  type DatabaseSource,
  databaseSource,
} from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { context } from "./interruption.ts";
import { formatCount, print, printJson, printTable } from "./output.ts";

interface Check {
  check: string;
  ok: boolean;
  /** Not as it should be, and of no consequence here. */
  warning?: true;
  result: string;
}

export function addDoctor(program: Command): void {
  program
    .command("doctor")
    .description("check the database, and say what to do about what is wrong")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions doctor
  pi-sessions doctor --database-url postgresql://app@db.example/agents`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<ConnectionOptions & { json?: true }>();
      const checks = await examine(options);
      if (options.json) printJson(checks);
      else {
        printTable(
          [
            { head: "CHECK", cell: ({ check }) => check },
            { head: "", cell: ({ ok, warning }) => (!ok ? "FAILED" : warning ? "WARNING" : "ok") },
            { head: "RESULT", cell: ({ result }) => result },
          ],
          checks,
        );
        if (checks.every(({ ok, warning }) => ok && !warning)) print("\nAll is well.");
      }
      if (checks.some(({ ok }) => !ok)) {
        process.exitCode = checks.some(({ check, ok }) => check === "connection" && !ok)
          ? EXIT.database
          : EXIT.foundFailures;
      }
    });
}

async function examine(options: ConnectionOptions): Promise<Check[]> {
  const checks: Check[] = [{ check: "database", ok: true, result: describeSource(databaseSource(options)) }];
  /** Each check needs the one before it. */
  const attempt = async <T>(check: string, work: () => Promise<[string, T]>): Promise<T | undefined> => {
    try {
      const [result, found] = await work();
      checks.push({ check, ok: true, result });
      return found;
    } catch (error) {
      if (!(error instanceof PiSessionError)) throw error;
      checks.push({ check, ok: false, result: toldError(error) });
      return undefined;
    }
  };
  const connection = await attempt<Connection>("connection", async () => {
    const opened = await connect(options);
    return [`PostgreSQL ${await opened.database.serverVersion()}`, opened];
  });
  if (connection === undefined) return checks;
  await using _ = connection;
  const { database } = connection;
  const schema = await attempt("schema", async () => [await assertMigrated(database), true]);
  if (schema === undefined) return checks;
  const repo = await attempt("tenant", async () => [
    `"${options.tenant}" exists`,
    await database.repo(options.tenant),
  ]);
  if (repo === undefined) return checks;
  await attempt("reading", async () => [await describeSessions(repo), true]);
  await attempt("writing", async () => [await writeAndDelete(repo), true]);
  const isolation = await attempt("isolation", async () => {
    const found = await database.checkIsolation(options.tenant);
    return [describeIsolation(found), found];
  });
  if (isolation?.isBound === false) {
    // An embedded server is one person's own.
    const isEmbedded = databaseSource(options).kind === "embedded";
    Object.assign(checks.at(-1) as Check, isEmbedded ? { warning: true } : { ok: false });
  }
  return checks;
}

/** @throws DatabaseNotMigratedError, DatabaseTooNewError */
async function assertMigrated(database: Database): Promise<string> {
  const { pending, unknown } = await database.migrationStatus();
  if (unknown.length > 0) throw new DatabaseTooNewError(database.schema, unknown);
  if (pending.length > 0) throw new DatabaseNotMigratedError(database.schema);
  return `"${database.schema}" is migrated`;
}

/** Beyond that, sessions are not counted one by one. */
const MAX_COUNTED = 1000;

async function describeSessions(repo: PgSessionRepo): Promise<string> {
  const sessions = await repo.list({ limit: MAX_COUNTED + 1 }, context);
  const [newest] = sessions;
  if (newest === undefined) return "there are no sessions yet";
  const count =
    sessions.length > MAX_COUNTED ? `more than ${formatCount(MAX_COUNTED)}` : formatCount(sessions.length);
  return `sessions: ${count}, the newest is ${newest.id}`;
}

/** Proves by trying that this role may write, and leaves nothing behind. */
async function writeAndDelete(repo: PgSessionRepo): Promise<string> {
  await assertMayDelete(repo);
  const session = await repo.create({}, context);
  try {
    await session.setName("pi-sessions doctor", context);
  } finally {
    // Also after Ctrl-C.
    await session.close(BACKGROUND_CONTEXT);
    await repo.delete(session.metadata, BACKGROUND_CONTEXT);
  }
  return "a session was created, written and deleted again";
}

function describeIsolation({ role, isBound, leaks, reason }: IsolationCheck): string {
  if (isBound) return `tried: as "${role}", nothing of a tenant can be read or written as another`;
  const why = reason === undefined ? "" : ` (${reason})`;
  const what = leaks.length === 0 ? "" : `, which showed in ${leaks.join(", ")}`;
  return `TENANTS ARE NOT ISOLATED: row-level security does not bind "${role}"${why}${what}. Name another role to \`pi-sessions migrate --application-role\`, and let programs connect as that`;
}

/** Before there is anything to delete: a role that may only insert could not take it back. */
async function assertMayDelete(repo: PgSessionRepo): Promise<void> {
  try {
    await repo.delete({ id: randomUUID() }, context);
  } catch (error) {
    if (!(error instanceof SessionNotFoundError)) throw error;
  }
}

/** Without the password that a URL may hold. */
function describeSource(source: DatabaseSource): string {
  if (source.kind === "embedded") return `embedded server in ${source.dataDir}`;
  const { hostname, port, pathname } = URL.canParse(source.url)
    ? new URL(source.url)
    : new URL("postgresql://?");
  return `${hostname}${port ? `:${port}` : ""}${pathname} (from ${source.from})`;
}
