import { resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { SingleBar } from "cli-progress";
import { type Command, InvalidArgumentError, Option } from "commander";
import { archiveName } from "../archive/archive-name.ts";
import { exportFile } from "../archive/export-file.ts";
import {
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportOutcome,
  exportSession,
} from "../archive/export-session.ts";
import type { LeftOut } from "../archive/left-out.ts";
import { PiSessionError } from "../contract/errors.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import type { PgSessionMetadata } from "../postgres/session-row.ts";
import { toldError } from "./advice.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { context } from "./interruption.ts";
import { formatCount, print, printJson, tell, visible } from "./output.ts";
import { resolveSessionId } from "./session-id.ts";

interface ExportCommandOptions extends ConnectionOptions {
  format: ExportFormat;
  all?: true;
  force?: true;
  json?: true;
}

export function addExport(program: Command): void {
  program
    .command("export")
    .description("write sessions into files that pi opens")
    .usage("[options] --format <format> (<id...> | --all) <directory>")
    .argument(
      "<ids-and-directory...>",
      "session ids, or unique prefixes of them; then where the files go, or - for stdout",
    )
    .addOption(
      new Option(
        "--format <format>",
        "original: the imported file; v3: for pi 1.6; v4: for pi-agent-core 0.87",
      )
        .choices([...EXPORT_FORMATS])
        .makeOptionMandatory(),
    )
    .option("--all", "all sessions of the tenant")
    .option("--force", "replace files that are there already")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
A session becomes a file <time>_<id>.jsonl in the directory, which is there when it is whole. What a format has no room
for is left out, and said. A session that cannot be exported does not stop the others; the exit code is then 1.

Examples:
  pi-sessions export --format original --all out
  pi-sessions export --format v3 01a2 01b7 out
  pi-sessions export --format v4 01a2 - | head -n 1`,
    )
    .action(async (args: string[], _options, command: Command) => {
      const options = command.optsWithGlobals<ExportCommandOptions>();
      const { ids, target } = partsOf(args, options);
      await withRepo(options, async (repo) => {
        if (target === "-") await exportToStdout(repo, ids[0] as string, options);
        else await exportToFiles(repo, ids, target, options);
      });
    });
}

function partsOf(args: readonly string[], { all, json }: ExportCommandOptions) {
  const ids = args.slice(0, -1);
  const target = args.at(-1) as string;
  if (all && ids.length > 0) throw new InvalidArgumentError("Pass either ids or --all, then one directory.");
  if (!all && ids.length === 0) throw new InvalidArgumentError("Pass ids or --all, and then a directory.");
  if (target === "-" && (ids.length !== 1 || json))
    throw new InvalidArgumentError(
      "Standard output takes the file of one session: pass one id, without --json.",
    );
  return { ids, target };
}

async function exportToStdout(
  repo: PgSessionRepo,
  prefix: string,
  { format }: ExportCommandOptions,
): Promise<void> {
  const id = await resolveSessionId(repo, prefix);
  const onOutcome = ({ leftOut }: ExportOutcome) => {
    const missing = describeLeftOut(leftOut);
    if (missing !== "") tell(`left out: ${missing}`);
  };
  await pipeline(exportSession(repo.exporter, id, { format, onOutcome }, context), process.stdout, {
    end: false,
  });
}

/** What became of one session. */
type Result =
  | (ExportOutcome & { status: "exported"; path: string })
  | { status: "failed"; sessionId: string; code: string; reason: string };

async function exportToFiles(
  repo: PgSessionRepo,
  prefixes: readonly string[],
  directory: string,
  { format, force, all, json }: ExportCommandOptions,
): Promise<void> {
  const sessions = all ? await repo.list(undefined, context) : await named(repo, prefixes);
  const pathOf = new Map(sessions.map((session) => [session.id, resolve(directory, archiveName(session))]));
  const bar = new ExportBar(sessions.length);
  const results: Result[] = [];
  try {
    for (const session of sessions) {
      const parentPath = pathOf.get(session.parentSessionId ?? "");
      const options = {
        format,
        directory,
        force: force ?? false,
        ...(parentPath === undefined ? {} : { parentPath }),
      };
      results.push(await resultOf(session, () => exportFile(repo.exporter, session, options, context)));
      bar.advance(session.id);
    }
  } finally {
    bar.stop();
  }
  if (json) printJson({ format, files: results });
  else printResults(results, directory);
  if (results.some(({ status }) => status === "failed")) process.exitCode = EXIT.foundFailures;
}

async function named(repo: PgSessionRepo, prefixes: readonly string[]): Promise<PgSessionMetadata[]> {
  const sessions = new Map<string, PgSessionMetadata>();
  for (const prefix of prefixes) {
    const session = await repo.open({ id: await resolveSessionId(repo, prefix) }, context);
    await session.close(context);
    sessions.set(session.metadata.id, session.metadata);
  }
  return [...sessions.values()];
}

/** Where the database cannot be used, the other sessions cannot be exported either. */
async function resultOf(
  { id: sessionId }: PgSessionMetadata,
  work: () => Promise<ExportOutcome & { path: string }>,
): Promise<Result> {
  try {
    return { status: "exported", ...(await work()) };
  } catch (error) {
    if (!(error instanceof PiSessionError) || exitCodeOf(error.code) === EXIT.database) throw error;
    return { status: "failed", sessionId, code: error.code, reason: toldError(error) };
  }
}

/** A bar on a terminal's standard error. */
class ExportBar {
  readonly #bar = new SingleBar({
    format: "Exporting {bar} {percentage}% | {value} of {total} sessions | {id}",
    stream: process.stderr,
    // Changes no setting of the terminal, so that none is left behind however this process ends.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
  });

  constructor(sessions: number) {
    this.#bar.start(sessions, 0, { id: "" });
  }

  advance(id: string): void {
    this.#bar.increment(1, { id: visible(id).slice(0, 40) });
  }

  stop(): void {
    this.#bar.stop();
  }
}

function printResults(results: readonly Result[], directory: string): void {
  const exported = results.filter((result) => result.status === "exported");
  const bytes = exported.reduce((sum, result) => sum + result.bytes, 0);
  print(
    `Exported ${formatCount(exported.length)} session${exported.length === 1 ? "" : "s"} ` +
      `(${formatCount(bytes)} bytes) to ${visible(directory)}, ${formatCount(results.length - exported.length)} failed.`,
  );
  for (const result of results) {
    if (result.status === "failed")
      print(`failed    ${visible(result.sessionId)}: ${visible(result.reason)}`);
    else if (describeLeftOut(result.leftOut) !== "")
      print(`left out  ${visible(result.path)}: ${describeLeftOut(result.leftOut)}`);
  }
}

const LEFT_OUT: Record<keyof LeftOut, [one: string, many: string]> = {
  metadata: ["the application's metadata", "the application's metadata"],
  parent: ["the id of its parent", "the id of its parent"],
  branches: ["the name of 1 branch", "the names of # branches"],
  values: ["1 value", "# values"],
  listElements: ["1 list element", "# list elements"],
  repeatedMessages: ["1 retained message is repeated", "# retained messages are repeated"],
  uncountedUsage: [
    "that the usage of 1 entry is not in the ledger",
    "that the usage of # entries is not in the ledger",
  ],
};

function describeLeftOut(leftOut: LeftOut): string {
  return Object.entries(LEFT_OUT)
    .map(([what, [one, many]]) => [leftOut[what as keyof LeftOut], one, many] as const)
    .filter(([count]) => count > 0)
    .map(([count, one, many]) => (count === 1 ? one : many.replace("#", formatCount(count))))
    .join(", ");
}
