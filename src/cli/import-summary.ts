import type { FileOutcome, ImportReport } from "../archive/report.ts";
import { formatCount, print, visible } from "./output.ts";

/** What an import was asked for and has done. */
export interface ImportSummary extends ImportReport {
  /** Whether nothing was to be written. */
  dryRun: boolean;
  /** Number of files that options left out. */
  leftOut: number;
  /** How long it took. */
  seconds: number;
}

/** Whether all that was found is stored, or could be. */
export function isComplete({ failed, files }: ImportReport): boolean {
  return failed === 0 && files.every((file) => !("unusableCount" in file));
}

export function printSummary(summary: ImportSummary): void {
  const { dryRun, leftOut, files } = summary;
  const stored = dryRun ? summary.wouldImport : summary.imported;
  print(
    `${dryRun ? "Would import" : "Imported"} ${formatCount(stored)} session${stored === 1 ? "" : "s"} ` +
      `(${formatCount(summary.messages)} messages, ${formatCount(summary.usageRows)} usage rows), ` +
      `${formatCount(summary.unchanged)} unchanged, ${formatCount(summary.skipped)} skipped, ` +
      `${formatCount(summary.failed)} failed${leftOut === 0 ? "" : `, ${formatCount(leftOut)} left out`}.`,
  );
  if (files.length === 0 && leftOut === 0)
    print("No archive was found: directories are searched for *.jsonl files, at any depth.");
  for (const file of files) for (const line of problemsOf(file)) print(line);
}

function problemsOf(file: FileOutcome): string[] {
  const path = visible(file.path);
  switch (file.status) {
    case "skipped":
      return [`skipped  ${path}: ${visible(file.reason)}`];
    case "failed":
      return [`failed   ${at(path, file.line)}: ${visible(file.reason)}`];
    case "unchanged":
      return [];
    default:
      return [...tornOf(path, file), ...unusableOf(path, file)];
  }
}

type Stored = Extract<FileOutcome, { sessionId: string }>;

function tornOf(path: string, { tornBytes }: Stored): string[] {
  if (tornBytes === undefined) return [];
  return [
    `torn     ${path}: its last ${formatCount(tornBytes)} bytes are an unfinished line, and were left out`,
  ];
}

function unusableOf(path: string, { unusable = [], unusableCount = 0 }: Stored): string[] {
  const untold = unusableCount - unusable.length;
  return [
    ...unusable.map(({ line, reason }) => `unusable ${at(path, line)}: ${visible(reason)}`),
    ...(untold === 0 ? [] : [`unusable ${path}: ${formatCount(untold)} lines more`]),
  ];
}

function at(path: string, line: number | undefined): string {
  return line === undefined ? path : `${path}:${line}`;
}
