import type { Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import type { SessionExporter, SessionSnapshot } from "../postgres/export-session.ts";
import { exportOriginal } from "./export-original.ts";
import { exportV3 } from "./export-v3.ts";
import { exportV4 } from "./export-v4.ts";
import { type LeftOut, nothingLeftOut } from "./left-out.ts";

export const EXPORT_FORMATS = ["original", "v3", "v4"] as const;

/**
 * `original`: the file that the session was imported from, and what was added since as pi would have. `v3`: for pi
 * 1.6.0. `v4`: for pi-agent-core 0.87.1.
 */
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** How to export. */
export interface ExportOptions {
  /** Of the file. */
  format: ExportFormat;
  /**
   * Path of the parent session's file. Version 3 names a parent so; without it, it does not name a parent that is known
   * by its id.
   */
  parentPath?: string;
  /** Called once, after the last piece. */
  onOutcome?: (outcome: ExportOutcome) => void;
}

/** What an export has written. */
export interface ExportOutcome {
  /** Id of the session, also in the file. */
  sessionId: string;
  /** Of the file. */
  format: ExportFormat;
  /** Size of the file. */
  bytes: number;
  /** What the file does not say, though the session does. */
  leftOut: LeftOut;
}

const FORMATS: Record<
  ExportFormat,
  (session: SessionSnapshot, leftOut: LeftOut, options: ExportOptions) => AsyncIterable<Buffer>
> = {
  original: exportOriginal,
  v3: exportV3,
  v4: exportV4,
};

/**
 * Writes a session as a file that pi opens, piece by piece, as the session is at one moment. Needs memory for the
 * longest line and not for the session. A connection is in use until the last piece is taken or the iteration ended.
 *
 * @param exporter `repo.exporter` of the tenant that the session is in
 * @throws InvalidOptionError, InvalidTextError, SessionNotFoundError, SessionVersionError, NoArchiveError, and the
 *   database's errors; then what was written before is no whole file
 * @example
 * const repo = await db.repo("default");
 * await pipeline(exportSession(repo.exporter, id, { format: "v4" }, context), createWriteStream("session.jsonl"));
 */
export async function* exportSession(
  exporter: SessionExporter,
  sessionId: string,
  options: ExportOptions,
  context: Context,
): AsyncGenerator<Buffer> {
  const { format, onOutcome } = options;
  if (!Object.hasOwn(FORMATS, format))
    throw new InvalidOptionError("format", format, "pass original, v3 or v4");
  let bytes = 0;
  const leftOut = nothingLeftOut();
  const pieces = exporter.read(sessionId, (session) => FORMATS[format](session, leftOut, options), context);
  for await (const piece of pieces) {
    bytes += piece.length;
    yield piece;
  }
  onOutcome?.({ sessionId, format, bytes, leftOut });
}
