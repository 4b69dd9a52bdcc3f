import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Context } from "../contract/context.ts";
import type { SessionImporter } from "../postgres/import-session.ts";
import { ArchiveFile } from "./archive-file.ts";
import { type ImportFileOptions, importFile } from "./import-file.ts";
import type { FailedOutcome, FileOutcome, StoredOutcome } from "./report.ts";
import { SqliteContainer } from "./sqlite-container.ts";

export interface ImportContainerOptions extends ImportFileOptions {
  /** What becomes of a session that cannot be imported; rethrows an error that ends the import. */
  readonly failed: (error: unknown) => FailedOutcome;
}

/**
 * Stores the sessions of a SQLite database, each in one transaction. One that cannot be imported does not stop the
 * others.
 *
 * @throws ArchiveError when the database cannot be read
 */
export async function importContainer(
  importer: SessionImporter,
  path: string,
  options: ImportContainerOptions,
  context: Context,
): Promise<FileOutcome[]> {
  using container = await SqliteContainer.open(path);
  const sessionIds = container.sessionIds();
  await options.turn.take(...sessionIds);
  const outcomes: FileOutcome[] = [];
  for (const sessionId of sessionIds) {
    context.abortSignal?.throwIfAborted();
    try {
      outcomes.push({ ...(await importSession(importer, container, sessionId, options, context)), path });
    } catch (error) {
      // Lines are those of a file that nobody sees.
      const { line: _, ...outcome } = options.failed(error);
      outcomes.push({ ...outcome, path, sessionId });
    }
  }
  return outcomes;
}

/**
 * By way of a format-4 file that is deleted again: so the database is read for a short time, and the session is
 * checked, compared and stored as that of a file is.
 */
async function importSession(
  importer: SessionImporter,
  container: SqliteContainer,
  sessionId: string,
  options: ImportFileOptions,
  context: Context,
): Promise<StoredOutcome> {
  const directory = await mkdtemp(join(tmpdir(), "pi-sessions-"));
  try {
    const copy = join(directory, "session.jsonl");
    await container.writeSession(sessionId, copy);
    await using file = await ArchiveFile.open(copy);
    // The size of a session says nothing about that of the database.
    return await importFile(importer, file, { ...options, onProgress: () => {} }, context);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
