import { PiSessionError } from "../contract/errors.ts";

/** Why a file, or a line of it, was refused. Stable across versions. */
export type ArchiveErrorCode =
  /** The path does not exist. */
  | "path_not_found"
  /** The operating system does not let us read it. */
  | "unreadable"
  /** A device, a socket, a pipe. */
  | "not_a_file"
  /** The first line is no header of a pi session. */
  | "not_an_archive"
  /** A pi session of a version that this release does not read. */
  | "unsupported_version"
  | "invalid_header"
  | "invalid_utf8"
  | "invalid_json"
  | "line_too_long"
  | "too_many_records"
  | "invalid_record"
  /** A record type that this release does not read. */
  | "unsupported_record"
  | "invalid_text"
  | "invalid_usage"
  | "invalid_sequence"
  | "duplicate_id"
  | "missing_parent"
  /** A label, a summary or a compaction names a record that is not there. */
  | "missing_reference"
  /** The file was changed while it was read. */
  | "file_changed"
  /** The session is already stored, and not from this file. */
  | "session_exists";

export interface ArchiveErrorPlace {
  readonly path: string;
  /** Counted from 1. */
  readonly line?: number | undefined;
}

/** An archive cannot be imported. The reason never repeats what was said in the session. */
export class ArchiveError extends PiSessionError {
  /** An {@link ArchiveErrorCode}, or the code of the error that is the cause. */
  readonly code: string;
  readonly path: string;
  /** Counted from 1; undefined where no single line is to blame. */
  readonly line: number | undefined;
  /** What is wrong and what to do, without path and line. */
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
