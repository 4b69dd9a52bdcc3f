import type { Context } from "../contract/context.ts";
import { InvalidWriteError, SessionExistsError } from "../contract/errors.ts";
import type { ArchiveRecord, SessionImporter } from "../postgres/import-session.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { ArchiveError } from "./errors.ts";
import { type ArchiveHeader, readHeader } from "./header.ts";
import { ArchiveStream } from "./import-stream.ts";
import { inheritanceOf } from "./inheritance.ts";
import { LineFaults } from "./line-faults.ts";
import { newSession } from "./new-session.ts";
import type { ArchiveReplay, OnRead, ReplayEnd } from "./replay.ts";
import type { StoredOutcome } from "./report.ts";
import type { SessionTurn } from "./session-turns.ts";
import { V3_PASSES, V3Replay } from "./v3-replay.ts";
import { V4Replay } from "./v4.ts";

export interface ImportFileOptions {
  readonly dryRun: boolean;
  /** Whether to import what can be used of a file with faults. */
  readonly lenient: boolean;
  /** Files of one session come one after the other. */
  readonly turn: SessionTurn;
  /** Sessions of a dry run, which are in no database. */
  readonly seen: Map<string, ArchiveRecord>;
  /** Called with the number of bytes of the file that are done. */
  readonly onProgress: (bytes: number) => void;
}

/**
 * Stores the session of one file, in one transaction.
 *
 * @throws ArchiveError when the file is to blame, otherwise the database's error; then nothing is left behind
 */
export async function importFile(
  importer: SessionImporter,
  file: ArchiveFile,
  options: ImportFileOptions,
  context: Context,
): Promise<StoredOutcome> {
  const header = await readHeader(file, options);
  await options.turn.take(header.id);
  const known = options.seen.get(header.id) ?? (await storedArchive(importer, header.id, context));
  if (known !== undefined) return compared(file, header, known, readCounter(file, 1, options, context));
  const open = await archiveReader(file, header, options, context);
  return options.dryRun
    ? readOnly(file, header, open, options)
    : stored(importer, file, header, open, readCounter(file, 1, options, context), context);
}

/** Each reading begins anew. */
type OpenArchive = () => ArchiveReplay;

async function archiveReader(
  file: ArchiveFile,
  header: ArchiveHeader,
  options: ImportFileOptions,
  context: Context,
): Promise<OpenArchive> {
  const faults = () => new LineFaults(file.path, options);
  if (header.format === 4) {
    const onRead = readCounter(file, 1, options, context);
    return () => new V4Replay(file, header, { faults: faults(), onRead });
  }
  const onRead = readCounter(file, V3_PASSES, options, context);
  // Bytes of the parent's file are no progress of this one.
  const inheritance = await inheritanceOf(file, header, () => onRead(0));
  return () => new V3Replay(file, header, { inheritance, faults: faults(), onRead });
}

async function stored(
  importer: SessionImporter,
  file: ArchiveFile,
  header: ArchiveHeader,
  openArchive: OpenArchive,
  onRead: OnRead,
  context: Context,
): Promise<StoredOutcome> {
  let stream: ArchiveStream | undefined;
  const open = () => {
    stream = new ArchiveStream(file.path, openArchive());
    return stream;
  };
  try {
    await importer.import(await newSession(header), open, context);
  } catch (error) {
    // Another import came first, perhaps with the same file.
    const known =
      error instanceof SessionExistsError ? await storedArchive(importer, header.id, context) : undefined;
    if (known !== undefined) return compared(file, header, known, onRead);
    throw withPlace(error, file.path, stream);
  }
  return outcome("imported", file, header, stream);
}

async function readOnly(
  file: ArchiveFile,
  header: ArchiveHeader,
  openArchive: OpenArchive,
  options: ImportFileOptions,
): Promise<StoredOutcome> {
  const stream = new ArchiveStream(file.path, openArchive());
  for await (const _ of stream.chunks); // reading to the end checks everything
  options.seen.set(header.id, stream.finish().archive);
  return outcome("would_import", file, header, stream);
}

/** The session is there: from the same bytes, or the file is refused. */
async function compared(
  file: ArchiveFile,
  header: ArchiveHeader,
  known: ArchiveRecord | "not imported",
  onRead: OnRead,
): Promise<StoredOutcome> {
  if (known === "not imported") throw sessionExists(file.path, header.id, "and was not imported from a file");
  const sha256 = await file.sha256(onRead);
  if (sha256 === known.sha256) return outcome("unchanged", file, header, undefined);
  throw sessionExists(file.path, header.id, "or about to be, from a file with other content");
}

async function storedArchive(
  importer: SessionImporter,
  sessionId: string,
  context: Context,
): Promise<ArchiveRecord | "not imported" | undefined> {
  const found = await importer.find(sessionId, context);
  return found === undefined ? undefined : (found.archive ?? "not imported");
}

/** Turns bytes read into bytes done. An abort shows between two blocks of the file. */
function readCounter(
  file: ArchiveFile,
  passes: number,
  options: ImportFileOptions,
  context: Context,
): OnRead {
  let done = 0;
  return (bytes: number) => {
    context.abortSignal?.throwIfAborted();
    done += bytes / passes;
    options.onProgress(Math.min(done, file.size));
  };
}

function outcome(
  status: StoredOutcome["status"],
  file: ArchiveFile,
  header: ArchiveHeader,
  stream: ArchiveStream | undefined,
): StoredOutcome {
  const counts = stream?.counts ?? { entries: 0, messages: 0, usageRows: 0 };
  return {
    path: file.path,
    status,
    sessionId: header.id,
    format: header.format,
    ...counts,
    bytes: file.size,
    ...(stream === undefined ? {} : leftOut(stream.finish())),
  };
}

/** What of the file is no part of the session. */
function leftOut({ tornBytes, unusable }: ReplayEnd): Partial<StoredOutcome> {
  return {
    ...(tornBytes === 0 ? {} : { tornBytes }),
    ...(unusable.count === 0 ? {} : { unusable: unusable.lines, unusableCount: unusable.count }),
  };
}

function sessionExists(
  path: string,
  sessionId: string,
  how: string,
  options?: { cause?: unknown },
): ArchiveError {
  const id = JSON.stringify(sessionId);
  return new ArchiveError(
    "session_exists",
    { path },
    `the session ${id} is already stored, ${how}, and is never overwritten: delete it first, or import into another tenant`,
    options,
  );
}

/** Adds path and line to what the database layer said about a write, which it names by position. */
function withPlace(error: unknown, path: string, stream: ArchiveStream | undefined): unknown {
  if (error instanceof SessionExistsError) {
    return sessionExists(path, error.sessionId, "perhaps by another import just now", { cause: error });
  }
  if (!(error instanceof InvalidWriteError)) return error;
  const place = { path, line: stream?.lineOf(error.index) };
  return new ArchiveError("invalid_record", place, "it cannot be stored, because it is nested too deeply", {
    cause: error,
  });
}
