import type { Context } from "../contract/context.ts";
import {
  CommitContentionError,
  DuplicateIdError,
  InvalidTextError,
  MissingParentError,
} from "../contract/errors.ts";
import { DatabaseLimitError, TenantLimitError } from "../postgres/errors.ts";
import type { ArchiveRecord, SessionImporter } from "../postgres/import-session.ts";
import { ArchiveFile } from "./archive-file.ts";
import { ArchiveError } from "./errors.ts";
import { type Candidate, findArchives } from "./find-archives.ts";
import { importFile } from "./import-file.ts";
import { type FileOutcome, type ImportProgress, type ImportReport, reportOf } from "./report.ts";

/** How to import. */
export interface ImportOptions {
  /** Whether to read and check everything and write nothing. Default false. */
  dryRun?: boolean;
  /**
   * Whether to import what can be used of a file that has faults. Its unusable lines are reported, and kept for
   * `original` export. Default false: such a file is refused as a whole.
   */
  lenient?: boolean;
  /** Called often: after every block that is read, and every path that is finished. */
  onProgress?: (progress: ImportProgress) => void;
}

/**
 * Stores the sessions of pi's archives (JSONL of version 3, and format 4 of pi-agent-core 0.87.1), one transaction
 * per file. A session that is already stored from the same bytes is left alone, so importing again does nothing. A
 * file that cannot be imported, or for which the tenant has no room, is reported, leaves nothing behind and does not
 * stop the others.
 *
 * @param importer `repo.importer` of the tenant that gets the sessions
 * @param paths files, and directories that are searched for `*.jsonl`, also below
 * @throws the reason of the abort signal, and the database's error where no file is to blame (the tenant is
 *   suspended, the server is full, the connection is lost, …); files before that one stay imported
 * @example
 * const repo = await db.repo("default");
 * const report = await importArchives(repo.importer, ["sessions"], {}, context);
 * console.log(`${report.imported} imported, ${report.failed} failed`);
 */
export async function importArchives(
  importer: SessionImporter,
  paths: readonly string[],
  options: ImportOptions,
  context: Context,
): Promise<ImportReport> {
  const candidates = await findArchives(paths);
  const progress = new Progress(candidates, options.onProgress ?? (() => {}));
  const { dryRun = false, lenient = false } = options;
  const seen = new Map<string, ArchiveRecord>();
  const files: FileOutcome[] = [];
  for (const candidate of candidates) {
    context.abortSignal?.throwIfAborted();
    const onProgress = progress.start(candidate);
    const file = await outcomeOf(importer, candidate, { dryRun, lenient, seen, onProgress }, context);
    files.push(file);
    progress.finish(candidate, file);
  }
  return reportOf(files, dryRun);
}

async function outcomeOf(
  importer: SessionImporter,
  candidate: Candidate,
  options: Parameters<typeof importFile>[2],
  context: Context,
): Promise<FileOutcome> {
  const { path } = candidate;
  if ("failure" in candidate) return failed(path, candidate.failure);
  if ("skipped" in candidate) return { path, status: "skipped", reason: candidate.skipped };
  try {
    await using file = await ArchiveFile.open(path);
    return await importFile(importer, file, options, context);
  } catch (error) {
    if (!isFaultOfFile(error)) throw error;
    if (error instanceof ArchiveError && error.code === "not_an_archive" && !candidate.isExplicit) {
      return { path, status: "skipped", reason: error.reason };
    }
    return failed(path, error);
  }
}

type FaultOfFile = Error & { code: string };

/** Whether another file may still be imported. */
function isFaultOfFile(error: unknown): error is FaultOfFile {
  return (
    error instanceof ArchiveError ||
    error instanceof InvalidTextError ||
    error instanceof DuplicateIdError ||
    error instanceof MissingParentError ||
    error instanceof DatabaseLimitError ||
    error instanceof CommitContentionError ||
    error instanceof TenantLimitError || // a smaller one may fit, and an unchanged one needs no room
    isDataException(error)
  );
}

/** SQLSTATE classes 21 to 23: the server does not take these data. */
function isDataException(error: unknown): boolean {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && /^2[123][0-9A-Z]{3}$/.test(code);
}

function failed(path: string, error: FaultOfFile): FileOutcome {
  if (error instanceof ArchiveError) {
    const { line, code, reason } = error;
    return { path, status: "failed", ...(line === undefined ? {} : { line }), code, reason };
  }
  if (isDataException(error)) {
    // The server's own message may quote the data.
    const reason = `the database server does not take its data (SQLSTATE ${error.code}): please report this file`;
    return { path, status: "failed", code: "refused_by_database", reason };
  }
  return { path, status: "failed", code: error.code, reason: error.message };
}

/** Adds up what is done. */
class Progress {
  readonly #report: (progress: ImportProgress) => void;
  readonly #filesTotal: number;
  readonly #bytesTotal: number;
  #filesDone = 0;
  #bytesDone = 0;

  constructor(candidates: readonly Candidate[], report: (progress: ImportProgress) => void) {
    this.#report = report;
    this.#filesTotal = candidates.length;
    this.#bytesTotal = candidates.reduce((total, candidate) => total + sizeOf(candidate), 0);
  }

  /** @returns what is called with the bytes of this file that are done */
  start({ path }: Candidate): (bytes: number) => void {
    return (bytes) => this.#report(this.#now(path, this.#bytesDone + bytes));
  }

  finish(candidate: Candidate, outcome: FileOutcome): void {
    this.#filesDone++;
    this.#bytesDone += sizeOf(candidate);
    this.#report({ ...this.#now(candidate.path, this.#bytesDone), outcome });
  }

  #now(path: string, bytesDone: number): ImportProgress {
    const filesDone = this.#filesDone;
    // A file may have grown since it was found.
    const capped = Math.min(Math.round(bytesDone), this.#bytesTotal);
    return { filesDone, filesTotal: this.#filesTotal, bytesDone: capped, bytesTotal: this.#bytesTotal, path };
  }
}

function sizeOf(candidate: Candidate): number {
  return "size" in candidate ? candidate.size : 0;
}
