import type { Command } from "commander";
import { BACKGROUND_CONTEXT as context } from "../contract/context.ts";
import { PiSessionError } from "../contract/errors.ts";
import type { Database } from "../postgres/database.ts";
import {
  type Connection,
  type ConnectionOptions,
  connect,
  type DatabaseSource,
  databaseSource,
} from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { print, printJson, printTable } from "./output.ts";

interface Check {
  check: string;
  ok: boolean;
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
            { head: "", cell: ({ ok }) => (ok ? "ok" : "FAILED") },
            { head: "RESULT", cell: ({ result }) => result },
          ],
          checks,
        );
        if (checks.every(({ ok }) => ok)) print("\nAll is well.");
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
      checks.push({ check, ok: false, result: error.message });
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
  const repo = await attempt("schema and tenant", async () => {
    const tenant = await database.repo(options.tenant);
    return [`"${options.schema}" is migrated and has the tenant "${options.tenant}"`, tenant];
  });
  if (repo === undefined) return checks;
  await attempt("reading", async () => {
    const [newest] = await repo.list({ limit: 1 }, context);
    return [
      newest === undefined ? "there are no sessions yet" : `the newest session is ${newest.id}`,
      undefined,
    ];
  });
  await attempt("writing", () => writeAndDelete(database, options.tenant));
  return checks;
}

/** Proves by trying that this role may write, and leaves nothing behind. */
async function writeAndDelete(database: Database, tenant: string): Promise<[string, undefined]> {
  const repo = await database.repo(tenant);
  const session = await repo.create({}, context);
  try {
    await session.setName("pi-sessions doctor", context);
  } finally {
    await session.close(context);
    await repo.delete(session.metadata, context);
  }
  return ["a session was created, written and deleted again", undefined];
}

/** Without the password that a URL may hold. */
function describeSource(source: DatabaseSource): string {
  if (source.kind === "embedded") return `embedded server in ${source.dataDir}`;
  const { hostname, port, pathname } = URL.canParse(source.url)
    ? new URL(source.url)
    : new URL("postgresql://?");
  return `${hostname}${port ? `:${port}` : ""}${pathname} (from ${source.from})`;
}
