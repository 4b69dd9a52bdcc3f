import { availableParallelism } from "node:os";
import type { Context } from "../contract/context.ts";
import {
  CommitContentionError,
  DuplicateIdError,
  InvalidOptionError,
  InvalidTextError,
  MissingParentError,
} from "../contract/errors.ts";
import { DatabaseLimitError, TenantLimitError } from "../postgres/errors.ts";
import type { ArchiveRecord, SessionImporter } from "../postgres/import-session.ts";
import { ArchiveFile } from "./archive-file.ts";
import { ArchiveFilter, type ArchiveFilterOptions } from "./archive-filter.ts";
import { ArchiveError } from "./errors.ts";
import { type Candidate, findArchives } from "./find-archives.ts";
import { importContainer } from "./import-container.ts";
import { importFile } from "./import-file.ts";
import { ProgressSum } from "./import-progress.ts";
import { inOrder } from "./in-order.ts";
import type { FailedOutcome, FileOutcome, ImportProgress } from "./report.ts";
import { SessionTurns } from "./session-turns.ts";
import { isSqlite } from "./sqlite-container.ts";

/** How to import. */
export interface ImportOptions extends ArchiveFilterOptions {
  /** Whether to read and check everything and write nothing. Default false. */
  dryRun?: boolean;
  /**
   * Whether to import what can be used of a file that has faults. Its unusable lines are reported, and kept for
   * `original` export. Default false: such a file is refused as a whole.
   */
  lenient?: boolean;
  /** How many files at a time, each with a connection of its own. Default: as many as processors or connections. */
  jobs?: number;
  /** Called often: at the start, after every block that is read, and every path that is finished. */
  onProgress?: (progress: ImportProgress) => void;
}

/**
 * Stores the sessions of pi's archives (JSONL of versions 1 to 3, format 4 of pi-agent-core 0.87.1, and the SQLite
 * databases of its backend), one transaction per session, and tells what became of each file, or of each session of a database, in the order of their names. A session that is already stored from the
 * same bytes is left alone: importing again does nothing, and goes on after an import that was interrupted. A file that
 * cannot be imported, or for which the tenant has no room, is reported, leaves nothing behind and does not stop the
 * others.
 *
 * Files are imported ahead of the iteration; who stops iterating aborts the import.
 *
 * @param importer `repo.importer` of the tenant that gets the sessions
 * @param source files, and directories that are searched for `*.jsonl`, `*.sqlite`, `*.sqlite3` and `*.db`, also below
 * @throws InvalidOptionError, the reason of the abort signal, and the database's error where no file is to blame (the
 *   tenant is suspended, the server is full, the connection is lost, …); files before that one stay imported
 * @example
 * const repo = await db.repo("default");
 * for await (const file of importArchives(repo.importer, "sessions", {}, context)) {
 *   if (file.status === "failed") console.log(file.path, file.line, file.reason);
 * }
 */
export async function* importArchives(
  importer: SessionImporter,
  source: string | readonly string[],
  options: ImportOptions,
  context: Context,
): AsyncGenerator<FileOutcome, void, void> {
  const { dryRun = false, lenient = false } = options;
  const jobs = jobsOf(options, importer);
  const paths = typeof source === "string" ? [source] : source;
  const found = await findArchives(paths, new ArchiveFilter(options), context);
  const progress = new ProgressSum(found, options.onProgress ?? (() => {}));
  const turns = new SessionTurns();
  const seen = new Map<string, ArchiveRecord>();
  const importOne = async (candidate: Candidate, abortable: Context) => {
    using turn = turns.next();
    const { read, finish } = progress.start(candidate);
    const fileOptions = { dryRun, lenient, seen, turn, onProgress: read };
    const outcomes = await outcomesOf(importer, candidate, fileOptions, abortable);
    finish(outcomes);
    return outcomes;
  };
  for await (const outcomes of inOrder(found.candidates, importOne, { jobs }, context)) yield* outcomes;
}

/** @throws InvalidOptionError */
function jobsOf({ jobs }: ImportOptions, { connections }: SessionImporter): number {
  if (jobs === undefined) return Math.min(availableParallelism(), connections);
  if (Number.isSafeInteger(jobs) && jobs > 0) return Math.min(jobs, connections);
  throw new InvalidOptionError("jobs", jobs, "pass a whole number of files, 1 or more");
}

/** One outcome, or one for each session of a SQLite database. */
async function outcomesOf(
  importer: SessionImporter,
  candidate: Candidate,
  options: Parameters<typeof importFile>[2],
  context: Context,
): Promise<FileOutcome[]> {
  const { path } = candidate;
  if ("failure" in candidate) return [failed(path, candidate.failure)];
  if ("skipped" in candidate) return [{ path, status: "skipped", reason: candidate.skipped }];
  const failure = (error: unknown) => {
    if (!isFaultOfFile(error)) throw error;
    return failed(path, error);
  };
  try {
    await using file = await ArchiveFile.open(path);
    return (await isSqlite(file))
      ? await importContainer(importer, path, { ...options, failed: failure }, context)
      : [await importFile(importer, file, options, context)];
  } catch (error) {
    if (error instanceof ArchiveError && error.code === "not_an_archive" && !candidate.isExplicit) {
      return [{ path, status: "skipped", reason: error.reason }];
    }
    return [failure(error)];
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

function failed(path: string, error: FaultOfFile): FailedOutcome {
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
