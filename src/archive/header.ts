import { STORAGE_VERSION } from "../contract/storage.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import type { ArchiveFile } from "./archive-file.ts";
import { ArchiveError, LineFault, located } from "./errors.ts";
import { isJsonObject, isSafeInteger, type JsonObject } from "./json-object.ts";
import { type Line, LineReader, textOf } from "./line-reader.ts";

/** The first line of an archive. */
export type ArchiveHeader = V3Header | V4Header;

interface HeaderBase {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly cwd: string;
}

export interface V3Header extends HeaderBase {
  readonly format: 3;
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

/** A longer first line is something else, and not to be read to its end. */
const MAX_HEADER_BYTES = 1024 * 1024;

/** @throws ArchiveError; `not_an_archive` if this is something else than a pi session */
export async function readHeader(file: ArchiveFile): Promise<ArchiveHeader> {
  const line = await readFirstLine(file);
  const place = { path: file.path, line: 1 };
  if (line === undefined) throw new ArchiveError("not_an_archive", place, "the file is empty");
  const header = located(place, () => parseHeader(line.bytes));
  if (line.terminated) return header;
  throw new ArchiveError("invalid_header", place, "the header is cut off: it does not end in a line feed");
}

async function readFirstLine(file: ArchiveFile): Promise<Line | undefined> {
  try {
    for await (const line of new LineReader(file, { maxLineBytes: MAX_HEADER_BYTES })) return line;
  } catch (error) {
    if (!(error instanceof ArchiveError) || error.code !== "line_too_long") throw error;
    throw notAnArchive("the first line is too long for a session header", file.path);
  }
  return undefined;
}

function notAnArchive(reason: string, path: string): ArchiveError {
  return new ArchiveError("not_an_archive", { path, line: 1 }, reason);
}

function parseHeader(bytes: Buffer): ArchiveHeader {
  const header = jsonObjectOf(bytes);
  if (header?.["type"] === "session") return checked(parseLegacyHeader(header));
  if (header?.["kind"] === "header") return checked(parseV4Header(header));
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

function parseLegacyHeader(header: JsonObject): V3Header {
  const { version, id, cwd, timestamp, parentSession } = header;
  assertV3(version);
  const createdAt = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
  if (typeof id !== "string") throw invalidHeader("id");
  if (typeof cwd !== "string") throw invalidHeader("cwd");
  if (!Number.isFinite(createdAt)) throw invalidHeader("timestamp");
  if (parentSession !== undefined && typeof parentSession !== "string") throw invalidHeader("parentSession");
  return { format: 3, id, createdAt, cwd, parentSession };
}

function assertV3(version: unknown): void {
  if (version === 3) return;
  if (version === undefined || version === 1 || version === 2) {
    const old = version === 2 ? "2" : "1";
    throw new LineFault(
      "unsupported_version",
      `sessions of version ${old} are not supported yet, a later release reads them: until then open the session once in a current pi, which rewrites it as version 3`,
    );
  }
  throw unknownVersion(version);
}

function parseV4Header(header: JsonObject): V4Header {
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
  return { format: 4, id, createdAt, cwd, parentSessionId, legacyParentSessionPath, nextSeq: nextSeq ?? 1 };
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
  const parentPath = header.format === 3 ? header.parentSession : header.legacyParentSessionPath;
  if (parentPath !== undefined) {
    assertText("parent session path", parentPath, { maxBytes: TEXT_LIMITS.path, empty: true });
  }
  return header;
}
