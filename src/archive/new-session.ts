import type { NewSession } from "../postgres/create-session.ts";
import { ArchiveFile } from "./archive-file.ts";
import { ArchiveError } from "./errors.ts";
import { type ArchiveHeader, readHeader } from "./header.ts";

/** What the header says about the session. The parent of a v3 session is looked up in the file it names. */
export async function newSession(header: ArchiveHeader): Promise<NewSession> {
  const { id, createdAt, cwd } = header;
  return {
    id,
    createdAt,
    // Format 4 has no header without it; an agent always has one.
    ...(cwd === "" ? {} : { cwd }),
    ...(header.format === 4 ? v4Parent(header) : await v3Parent(header.parentSession)),
  };
}

type Parent = Pick<NewSession, "parentSessionId" | "legacyParentSessionPath">;

function v4Parent({ parentSessionId, legacyParentSessionPath }: ArchiveHeader & { format: 4 }): Parent {
  return {
    ...(parentSessionId === undefined ? {} : { parentSessionId }),
    ...(legacyParentSessionPath === undefined ? {} : { legacyParentSessionPath }),
  };
}

async function v3Parent(path: string | undefined): Promise<Parent> {
  if (path === undefined) return {};
  try {
    await using file = await ArchiveFile.open(path);
    return { parentSessionId: (await readHeader(file)).id };
  } catch (error) {
    if (error instanceof ArchiveError) return { legacyParentSessionPath: path };
    throw error;
  }
}
