import { isDeepStrictEqual } from "node:util";
import type { CompactionEntry, Entry } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionSnapshot } from "../postgres/export-session.ts";

const ENTRIES_PER_READ = 32;

/**
 * Version 3 says of what a compaction retains only where it begins on the path before.
 *
 * @param isWrittenOtherwise whether the file has other records before an earlier compaction than its path has entries
 * @returns the entry from which on the path reads like the retained messages; the compaction itself where nothing is
 *   retained; `undefined` where the path reads like that from no entry on
 */
export async function firstKeptEntry(
  session: SessionSnapshot,
  { id, parentId, retainedTail }: CompactionEntry,
  isWrittenOtherwise: (compactionId: string) => boolean,
): Promise<string | undefined> {
  let missing = retainedTail.length;
  if (missing === 0) return id;
  for await (const entry of pathFrom(session, parentId)) {
    if (isWrittenOtherwise(entry.id)) return undefined;
    const message = messageOf(entry);
    if (message === undefined) continue;
    if (!isDeepStrictEqual(message, retainedTail[missing - 1])) return undefined;
    missing--;
    if (missing === 0) return entry.id;
  }
  return undefined;
}

/** What an entry is among retained messages, as they are read from a file. */
function messageOf(entry: Entry): AgentMessage | undefined {
  switch (entry.type) {
    case "message":
      return entry.message;
    case "branch_summary": {
      const { summary, fromId, timestamp } = entry;
      return summary ? { role: "branchSummary", summary, fromId, timestamp } : undefined;
    }
    case "compaction": {
      const { summary, tokensBefore, timestamp } = entry;
      return { role: "compactionSummary", summary, tokensBefore, timestamp };
    }
    default:
      return undefined;
  }
}

async function* pathFrom(session: SessionSnapshot, start: string | null): AsyncGenerator<Entry> {
  if (start === null) return;
  for (let cursor: Entry | undefined, page: Entry[] | undefined; page?.length !== 0; cursor = page.at(-1)) {
    page = await session.path({
      start,
      limit: ENTRIES_PER_READ,
      ...(cursor === undefined ? {} : { cursor: { seq: cursor.seq } }),
    });
    yield* page;
  }
}
