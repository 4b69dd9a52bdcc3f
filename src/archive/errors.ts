import { PiSessionError } from "../contract/errors.ts";

/** Why a file, or a line of it, was refused. Stable across versions. */
export type ArchiveErrorCode =
  /** The path does not exist. */
  | "path_not_found"
  /** The operating system does not let us read it. */
  | "unreadable"
  /** The path names a device, a socket or a pipe. */
  | "not_a_file"
  /** The first line is not a header of a pi session; of a lenient import, no line is. */
  | "not_an_archive"
  /** A pi session of a version that this release does not read. */
  | "unsupported_version"
  /** The header lacks a field, has one of the wrong type, or is cut off. */
  | "invalid_header"
  /** A line is not valid UTF-8. */
  | "invalid_utf8"
  /** A line is not valid JSON. */
  | "invalid_json"
  /** A line, or what a compaction retains, is longer than this release reads. */
  | "line_too_long"
  /** The file has more ids than this release can keep track of. */
  | "too_many_records"
  /** A record lacks a field, has one of the wrong type, or is nested too deeply. */
  | "invalid_record"
  /** A record of a type that this release does not read. */
  | "unsupported_record"
  /** An identifier is too long, is empty, or holds a NUL or a lone surrogate. */
  | "invalid_text"
  /** Usage holds something that the ledger cannot sum. */
  | "invalid_usage"
  /** A `seq` is not greater than the one before it. */
  | "invalid_sequence"
  /** An id occurs twice. */
  | "duplicate_id"
  /** A record names a parent that does not come before it. */
  | "missing_parent"
  /** A label, a summary or a compaction names a record that is not in the file. */
  | "missing_reference"
  /** The file was changed while it was read. */
  | "file_changed"
  /** What would be stored does not give the file's bytes back: a defect of this package. */
  | "not_reproducible"
  /** A file that is to be written cannot be: of the directory, its permissions or the disk. */
  | "unwritable"
  /** A file that is to be written is there already. */
  | "file_exists"
  /** The session is already stored, and not from the same bytes. */
  | "session_exists";

export interface ArchiveErrorPlace {
  readonly path: string;
  /** Counted from 1. */
  readonly line?: number | undefined;
}

/**
 * An archive cannot be imported, or a file not be written. Neither message nor reason repeats message content. `importArchives` reports it and
 * never throws it.
 */
export class ArchiveError extends PiSessionError {
  /** An {@link ArchiveErrorCode}, or the code of the error that is the `cause`. */
  readonly code: string;
  /** Path of the file. */
  readonly path: string;
  /** Counted from 1; `undefined` where no single line is at fault. */
  readonly line: number | undefined;
  /** What is wrong and, where something can be done, what to do; without path and line. */
  readonly reason: string;

  constructor(
    code: ArchiveErrorCode | PiSessionError["code"],
    place: ArchiveErrorPlace,
    reason: string,
    options?: { cause?: unknown },
  ) {
    super(`${place.path}${place.line === undefined ? "" : `:${place.line}`}: ${reason}`, options);
    this.code = code;
    this.path = place.path;
    this.line = place.line;
    this.reason = reason;
  }
}

/** @internal What is wrong with a line, said where neither path nor line is known. {@link located} adds them. */
export class LineFault extends Error {
  readonly code: ArchiveErrorCode;

  constructor(code: ArchiveErrorCode, reason: string) {
    super(reason);
    this.code = code;
  }
}

/** @internal Runs `work` on a line; whatever this package says against the line is then an {@link ArchiveError}. */
export function located<T>(place: ArchiveErrorPlace, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw atPlace(place, error);
  }
}

/** @internal */
export function atPlace(place: ArchiveErrorPlace, error: unknown): unknown {
  if (error instanceof ArchiveError) return error;
  if (error instanceof LineFault) return new ArchiveError(error.code, place, error.message);
  if (error instanceof PiSessionError)
    return new ArchiveError(error.code, place, error.message, { cause: error });
  return error;
}

/** @internal An id as it may stand in a reason. */
export function quoted(id: unknown): string {
  if (typeof id !== "string") return `of type ${id === null ? "null" : typeof id}`;
  return JSON.stringify(id.length > 80 ? `${id.slice(0, 80)}…` : id);
}
