import { STORAGE_VERSION } from "../contract/storage.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { ArchiveError, LineFault, located } from "./errors.ts";
import { isJsonObject, isSafeInteger, type JsonObject } from "./json-object.ts";
import { type Line, LineReader, textOf } from "./line-reader.ts";

/** The line of an archive that says what it is. */
export type ArchiveHeader = V3Header | V4Header;

interface HeaderBase {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly cwd: string;
  /** Its line, counted from 1. */
  readonly line: number;
  /** The line itself, without its line feed. */
  readonly bytes: Buffer;
  /** Offset of the line after it. */
  readonly end: number;
}

type HeaderPlace = Pick<HeaderBase, "line" | "bytes" | "end">;

/** Versions 1 to 3 have one form. */
export interface V3Header extends HeaderBase {
  readonly format: 1 | 2 | 3;
  /** Path of the file that this session was forked from. */
  readonly parentSession: string | undefined;
}

export interface V4Header extends HeaderBase {
  readonly format: 4;
  readonly parentSessionId: string | undefined;
  readonly legacyParentSessionPath: string | undefined;
  /** The next `seq` is at least this. */
  readonly nextSeq: number;
}

/** A longer first line is something else, and not to be read to its end. A lenient search ends here too. */
const MAX_HEADER_BYTES = 1024 * 1024;

export interface ReadHeaderOptions {
  /** Whether to look for the header below the first line too. */
  readonly lenient: boolean;
}

/** @throws ArchiveError; `not_an_archive` if this is something else than a pi session */
export async function readHeader(
  file: ArchiveFile,
  { lenient }: ReadHeaderOptions = { lenient: false },
): Promise<ArchiveHeader> {
  const first = await readLines(file, (line) => line);
  if (first === undefined) throw notAnArchive("the file is empty", file.path);
  if (!lenient || isHeader(first)) return headerOf(file, first);
  const header = await readLines(file, (line) => (isHeader(line) ? line : undefined));
  return headerOf(file, header ?? first);
}

function headerOf(file: ArchiveFile, line: Line): ArchiveHeader {
  const place = { path: file.path, line: line.number };
  const header = located(place, () => parseHeader(line));
  if (line.terminated) return header;
  throw new ArchiveError("invalid_header", place, "the header is cut off: it does not end in a line feed");
}

/** The first line of which `look` returns something, among those that may be a header. */
async function readLines<T>(file: ArchiveFile, look: (line: Line) => T | undefined): Promise<T | undefined> {
  try {
    for await (const lines of new LineReader(file, { maxLineBytes: MAX_HEADER_BYTES }).blocks()) {
      for (const line of lines) {
        const found = look(line);
        if (found !== undefined) return found;
        if (line.offset > MAX_HEADER_BYTES) return undefined;
      }
    }
  } catch (error) {
    if (!(error instanceof ArchiveError) || error.code !== "line_too_long") throw error;
    throw notAnArchive("the first line is too long for a session header", file.path);
  }
  return undefined;
}

function notAnArchive(reason: string, path: string): ArchiveError {
  return new ArchiveError("not_an_archive", { path, line: 1 }, reason);
}

function isHeader({ bytes }: Line): boolean {
  const header = jsonObjectOf(bytes);
  return header?.["type"] === "session" || header?.["kind"] === "header";
}

function parseHeader({ bytes, number, offset }: Line): ArchiveHeader {
  const header = jsonObjectOf(bytes);
  const place = { line: number, bytes: Buffer.from(bytes), end: offset + bytes.length + 1 };
  if (header?.["type"] === "session") return checked(parseLegacyHeader(header, place));
  if (header?.["kind"] === "header") return checked(parseV4Header(header, place));
  throw new LineFault("not_an_archive", "the first line is no header of a pi session");
}

function jsonObjectOf(bytes: Buffer): JsonObject | undefined {
  try {
    const header: unknown = JSON.parse(textOf(bytes, { first: true }));
    return isJsonObject(header) ? header : undefined;
  } catch {
    return undefined; // whatever it is, it is no header
  }
}

function parseLegacyHeader(header: JsonObject, place: HeaderPlace): V3Header {
  const { id, cwd, timestamp, parentSession } = header;
  const format = legacyVersion(header["version"]);
  const createdAt = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
  if (typeof id !== "string") throw invalidHeader("id");
  if (typeof cwd !== "string") throw invalidHeader("cwd");
  if (!Number.isFinite(createdAt)) throw invalidHeader("timestamp");
  if (parentSession !== undefined && typeof parentSession !== "string") throw invalidHeader("parentSession");
  return { format, id, createdAt, cwd, parentSession, ...place };
}

/** The first version had no number. */
function legacyVersion(version: unknown = 1): 1 | 2 | 3 {
  if (version === 1 || version === 2 || version === 3) return version;
  throw unknownVersion(version);
}

function parseV4Header(header: JsonObject, place: HeaderPlace): V4Header {
  const { v, id, cwd, storageVersion, createdAt, nextSeq, parentSessionId, legacyParentSessionPath } = header;
  if (v !== 4) throw unknownVersion(v);
  if (typeof id !== "string") throw invalidHeader("id");
  if (typeof cwd !== "string") throw invalidHeader("cwd");
  if (!isSafeInteger(createdAt, 0)) throw invalidHeader("createdAt");
  if (!isSafeInteger(storageVersion, 1)) throw invalidHeader("storageVersion");
  if (nextSeq !== undefined && !isSafeInteger(nextSeq, 1)) throw invalidHeader("nextSeq");
  if (!isOptionalString(parentSessionId)) throw invalidHeader("parentSessionId");
  if (!isOptionalString(legacyParentSessionPath)) throw invalidHeader("legacyParentSessionPath");
  if (storageVersion !== STORAGE_VERSION) {
    throw new LineFault(
      "unsupported_version",
      `storage version ${storageVersion} is not known: upgrade pi-session-postgres`,
    );
  }
  return {
    format: 4,
    id,
    createdAt,
    cwd,
    parentSessionId,
    legacyParentSessionPath,
    nextSeq: nextSeq ?? 1,
    ...place,
  };
}

function isOptionalString(json: unknown): json is string | undefined {
  return json === undefined || typeof json === "string";
}

function invalidHeader(field: string): LineFault {
  return new LineFault("invalid_header", `the session header has no valid \`${field}\``);
}

function unknownVersion(version: unknown): LineFault {
  const named = typeof version === "number" ? `version ${version}` : "an unknown version";
  return new LineFault("unsupported_version", `the session has ${named}: upgrade pi-session-postgres`);
}

/** @throws InvalidTextError */
function checked<THeader extends ArchiveHeader>(header: THeader): THeader {
  assertText("session id", header.id, { maxBytes: TEXT_LIMITS.sessionId, empty: false });
  assertText("working directory", header.cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  if (header.format === 4 && header.parentSessionId !== undefined) {
    assertText("parent session id", header.parentSessionId, {
      maxBytes: TEXT_LIMITS.sessionId,
      empty: false,
    });
  }
  const parentPath = header.format === 4 ? header.legacyParentSessionPath : header.parentSession;
  if (parentPath !== undefined) {
    assertText("parent session path", parentPath, { maxBytes: TEXT_LIMITS.path, empty: true });
  }
  return header;
}
