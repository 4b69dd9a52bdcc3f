import { SingleBar } from "cli-progress";
import type { Command } from "commander";
import { importArchives } from "../archive/importer.ts";
import type { FileOutcome, ImportReport } from "../archive/report.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import { toldReason } from "./advice.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { context } from "./interruption.ts";
import { formatCount, print, printJson, visible } from "./output.ts";

interface ImportOptions extends ConnectionOptions {
  dryRun?: true;
  json?: true;
}

export function addImport(program: Command): void {
  program
    .command("import")
    .description("store the sessions of pi archives (v3 and v4 JSONL)")
    .argument("<path...>", "files, or directories with *.jsonl files at any depth")
    .option("--dry-run", "read and check everything, write nothing")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
A file is one transaction. Importing it again does nothing. A broken file is reported with line and reason, leaves
nothing behind and does not stop the others; the exit code is then 1.

Examples:
  pi-sessions import ~/.pi/agent/sessions
  pi-sessions import --dry-run --json archive.jsonl`,
    )
    .action(async (paths: string[], _options, command: Command) => {
      const options = command.optsWithGlobals<ImportOptions>();
      await withRepo(options, async (repo) => {
        const report = await importWithProgress(repo, paths, { dryRun: options.dryRun ?? false });
        if (options.json) printJson(report);
        else printReport(report);
        if (report.failed > 0) process.exitCode = EXIT.foundFailures;
      });
    });
}

/** Imports, with a bar on a terminal's standard error. */
export async function importWithProgress(
  repo: PgSessionRepo,
  paths: readonly string[],
  { dryRun }: { dryRun: boolean },
): Promise<ImportReport> {
  const bar = new SingleBar({
    format: "Importing {bar} {percentage}% | {files} of {allFiles} files | {path}",
    stream: process.stderr,
    // Changes no setting of the terminal, so that none is left behind however this process ends.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
    etaBuffer: 100,
  });
  let isStarted = false;
  try {
    const report = await importArchives(
      repo.importer,
      paths,
      {
        dryRun,
        onProgress: ({ bytesDone, bytesTotal, filesDone, filesTotal, path }) => {
          const state = { files: filesDone, allFiles: filesTotal, path: visible(path).slice(-50) };
          if (isStarted) bar.update(bytesDone, state);
          else bar.start(bytesTotal, bytesDone, state);
          isStarted = true;
        },
      },
      context,
    );
    return { ...report, files: report.files.map(told) };
  } finally {
    if (isStarted) bar.stop();
  }
}

function told(file: FileOutcome): FileOutcome {
  return file.status === "failed" ? { ...file, reason: toldReason(file.code, file.reason) } : file;
}

export function printReport(report: ImportReport): void {
  const stored = report.dryRun ? report.wouldImport : report.imported;
  print(
    `${report.dryRun ? "Would import" : "Imported"} ${formatCount(stored)} session${stored === 1 ? "" : "s"} ` +
      `(${formatCount(report.messages)} messages, ${formatCount(report.usageRows)} usage rows), ` +
      `${formatCount(report.unchanged)} unchanged, ${formatCount(report.skipped)} skipped, ` +
      `${formatCount(report.failed)} failed.`,
  );
  if (report.files.length === 0)
    print("No archive was found: directories are searched for *.jsonl files, at any depth.");
  for (const file of report.files) {
    const problem = problemOf(file);
    if (problem !== undefined) print(problem);
  }
}

function problemOf(file: FileOutcome): string | undefined {
  switch (file.status) {
    case "skipped":
      return `skipped  ${visible(file.path)}: ${visible(file.reason)}`;
    case "failed":
      return `failed   ${visible(file.path)}${file.line === undefined ? "" : `:${file.line}`}: ${visible(file.reason)}`;
    default:
      return undefined;
  }
}
