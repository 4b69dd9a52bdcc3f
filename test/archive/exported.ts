import { writeFile } from "node:fs/promises";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { type ExportFormat, type ExportOutcome, exportSession } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";

export interface Exported {
  path: string;
  content: Buffer;
  outcome: ExportOutcome;
}

/** Exports a session into a new file at this path. */
export async function exportTo(
  path: string,
  repo: PgSessionRepo,
  sessionId: string,
  format: ExportFormat,
): Promise<Exported> {
  let outcome: ExportOutcome | undefined;
  const pieces: Buffer[] = [];
  const options = { format, onOutcome: (told: ExportOutcome) => (outcome = told) };
  for await (const piece of exportSession(repo.exporter, sessionId, options, context)) pieces.push(piece);
  const content = Buffer.concat(pieces);
  await writeFile(path, content);
  return { path, content, outcome: outcome as ExportOutcome };
}
