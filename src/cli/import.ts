import { type Command, InvalidArgumentError } from "commander";
import { importArchives } from "../archive/importer.ts";
import { type FileOutcome, reportOf } from "../archive/report.ts";
import { PiSessionError } from "../contract/errors.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import { toldError, toldReason } from "./advice.ts";
import { time, wholeNumber } from "./arguments.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { displayForPeople, type ImportDisplay, JsonEvents } from "./import-display.ts";
import { type ImportSummary, isComplete, printSummary } from "./import-summary.ts";
import { context } from "./interruption.ts";
import { printJsonLine } from "./output.ts";
import { ReportFile } from "./report-file.ts";

/** Which files, and how. */
export interface ImportSelection {
  dryRun?: boolean;
  lenient?: boolean;
  jobs?: number;
  since?: number;
  include?: string[];
  exclude?: string[];
}

interface ImportOptions extends ConnectionOptions, ImportSelection {
  report?: string;
  json?: true;
}

export function addImport(program: Command): void {
  program
    .command("import")
    .description("store the sessions of pi archives (JSONL of any version)")
    .argument("<path...>", "files, or directories with *.jsonl files at any depth")
    .option("--dry-run", "read and check everything, write nothing")
    .option("--lenient", "import what can be used of a broken file, and list the lines that cannot")
    .option("--since <time>", "only files that were modified at this time or later", time)
    .option("--include <glob>", "only files that match, below the directory; can be repeated", collect)
    .option("--exclude <glob>", "no files or directories that match; can be repeated", collect)
    .option("--jobs <number>", "files at a time (default: number of processors)", jobs)
    .option("--report <file>", "write what became of each file to this file, as JSON")
    .option("--json", "print events, one JSON object per line: progress, file, summary")
    .addHelpText(
      "after",
      `
A file is one transaction. Importing it again does nothing, and an import that was interrupted, in whatever way, goes on
when it is run again. A broken file is reported with line and reason, leaves nothing behind and does not stop the others;
the exit code is then 1. It is 0 only when everything was imported.

A glob without a slash is matched with the name of the file, others with its path below the directory.

Examples:
  pi-sessions import ~/.pi/agent/sessions
  pi-sessions import --since 2026-03-01 --exclude '**/scratch/**' --report report.json ~/.pi/agent/sessions
  pi-sessions import --dry-run --json archive.jsonl`,
    )
    .action(async (paths: string[], _options, command: Command) => {
      const options = command.optsWithGlobals<ImportOptions>();
      await using file = options.report === undefined ? undefined : await ReportFile.begin(options.report);
      await withRepo(options, async (repo) => {
        const summary = await importWithReport(repo, paths, options, file);
        if (options.json) printJsonLine({ event: "summary", ...summary, files: undefined });
        else printSummary(summary);
        if (!isComplete(summary)) process.exitCode = EXIT.foundFailures;
      });
    });
}

function collect(glob: string, before: string[] = []): string[] {
  return [...before, glob];
}

function jobs(text: string): number {
  const count = wholeNumber(text);
  if (count === 0) throw new InvalidArgumentError("Pass a whole number, 1 or more.");
  return count;
}

/** The report is also written when something ends the import that is no file's fault. */
async function importWithReport(
  repo: PgSessionRepo,
  paths: readonly string[],
  options: ImportOptions,
  file: ReportFile | undefined,
): Promise<ImportSummary> {
  const told: FileOutcome[] = [];
  const display = options.json ? new JsonEvents() : displayForPeople();
  try {
    const summary = await importTo(repo, paths, options, { display, told });
    await file?.write(summary);
    return summary;
  } catch (error) {
    const code = error instanceof PiSessionError ? error.code : undefined;
    const message = error instanceof PiSessionError ? toldError(error) : String(error);
    await file?.write({ ...(await reportOf(told)), error: { code, message } });
    throw error;
  }
}

/** Imports with a bar or lines on standard error. */
export function importWithProgress(
  repo: PgSessionRepo,
  paths: readonly string[],
  selection: ImportSelection,
): Promise<ImportSummary> {
  return importTo(repo, paths, selection, { display: displayForPeople(), told: [] });
}

async function importTo(
  repo: PgSessionRepo,
  paths: readonly string[],
  { dryRun = false, lenient = false, jobs, since, include, exclude }: ImportSelection,
  { display, told }: { display: ImportDisplay; told: FileOutcome[] },
): Promise<ImportSummary> {
  const startedAt = performance.now();
  let leftOut = 0;
  const outcomes = importArchives(
    repo.importer,
    paths,
    {
      dryRun,
      lenient,
      ...(jobs === undefined ? {} : { jobs }),
      ...(since === undefined ? {} : { since }),
      ...(include === undefined ? {} : { include }),
      ...(exclude === undefined ? {} : { exclude }),
      onProgress: (now) => {
        leftOut = now.leftOut;
        display.progress(now);
      },
    },
    context,
  );
  try {
    for await (const outcome of outcomes) {
      told.push(advised(outcome));
      display.file(advised(outcome));
    }
  } finally {
    display.stop();
  }
  const seconds = Math.round(performance.now() - startedAt) / 1000;
  return { dryRun, ...(await reportOf(told)), leftOut, seconds };
}

function advised(file: FileOutcome): FileOutcome {
  return file.status === "failed" ? { ...file, reason: toldReason(file.code, file.reason) } : file;
}
