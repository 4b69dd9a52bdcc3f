import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Context } from "../contract/context.ts";
import type { SessionExporter } from "../postgres/export-session.ts";
import { archiveName } from "./archive-name.ts";
import { ArchiveError } from "./errors.ts";
import { type ExportOptions, type ExportOutcome, exportSession } from "./export-session.ts";
import { isTaken, nameFile } from "./name-file.ts";

/** Where a session is exported to. */
export interface ExportFileOptions extends Omit<ExportOptions, "onOutcome"> {
  /** It is created if it is not there. */
  directory: string;
  /** Whether a file of that name is replaced. Otherwise it stays, and the export is refused. */
  force: boolean;
}

/**
 * Exports a session into a file of its own, with the name that pi gives it. The file is there when it is whole, and
 * not before.
 *
 * @throws ArchiveError with code `file_exists` or `unwritable`, and what `exportSession` throws; then no file is left
 */
export async function exportFile(
  exporter: SessionExporter,
  session: { id: string; createdAt: number },
  { directory, force, ...options }: ExportFileOptions,
  context: Context,
): Promise<ExportOutcome & { path: string }> {
  const path = join(directory, archiveName(session));
  const draft = join(directory, `.${randomUUID()}.tmp`);
  let outcome: ExportOutcome | undefined;
  try {
    await mkdir(directory, { recursive: true });
    if (!force && (await isTaken(path))) throw fileExists(path);
    const onOutcome = (told: ExportOutcome) => {
      outcome = told;
    };
    await pipeline(
      exportSession(exporter, session.id, { ...options, onOutcome }, context),
      createWriteStream(draft, { flags: "wx", flush: true }),
    );
    if (force) await rename(draft, path);
    else if (!(await nameFile(draft, path))) throw fileExists(path);
  } catch (error) {
    throw writingError(path, error);
  } finally {
    // What matters is why the export failed, not that its draft cannot be removed.
    await rm(draft, { force: true }).catch(() => {});
  }
  return { ...(outcome as ExportOutcome), path };
}

function fileExists(path: string): ArchiveError {
  return new ArchiveError(
    "file_exists",
    { path },
    "this file is there already: move it, or have it replaced",
  );
}

/** What the operating system says against a file that is to be written. */
function writingError(path: string, error: unknown): unknown {
  const { syscall, code } = (error ?? {}) as NodeJS.ErrnoException;
  if (error instanceof ArchiveError || syscall === undefined || !FILE_CALLS.has(syscall)) return error;
  const reason = `it cannot be written (${code}): check the directory, its permissions and the disk`;
  return new ArchiveError("unwritable", { path }, reason, { cause: error });
}

/** Those of the network fail with codes too. */
const FILE_CALLS: ReadonlySet<string> = new Set([
  "mkdir",
  "lstat",
  "open",
  "write",
  "fsync",
  "close",
  "rename",
  "link",
]);
