import { isDeepStrictEqual } from "node:util";
import type { CompactionEntry, Entry } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionSnapshot } from "../postgres/export-session.ts";

const ENTRIES_PER_READ = 32;

/**
 * Version 3 says of what a compaction retains only where it begins on the path before.
 *
 * @returns the entry from which on the path reads like the retained messages; the compaction itself where nothing is
 *   retained; `undefined` where the path does not read like that from any entry on
 */
export async function firstKeptEntry(
  session: SessionSnapshot,
  { id, parentId, retainedTail }: CompactionEntry,
): Promise<string | undefined> {
  if (retainedTail.length === 0) return id;
  const readings = [new Reading(retainedTail, asPiShows), new Reading(retainedTail, asImported)];
  for await (const entry of pathFrom(session, parentId)) {
    for (const reading of readings) reading.goBack(entry);
    if (readings.every((reading) => reading.isOver)) break;
  }
  return readings.find(({ first }) => first !== undefined)?.first;
}

/** Compares messages with a path, both from their ends. */
class Reading {
  readonly #messages: readonly AgentMessage[];
  readonly #messageOf: (entry: Entry) => AgentMessage | undefined;
  #missing: number;
  #differs = false;
  /** The entry of the first message, once all are found. */
  first: string | undefined;

  constructor(messages: readonly AgentMessage[], messageOf: (entry: Entry) => AgentMessage | undefined) {
    this.#messages = messages;
    this.#messageOf = messageOf;
    this.#missing = messages.length;
  }

  get isOver(): boolean {
    return this.#differs || this.first !== undefined;
  }

  goBack(entry: Entry): void {
    if (this.isOver) return;
    const message = this.#messageOf(entry);
    if (message === undefined) return;
    if (!isDeepStrictEqual(message, this.#messages[this.#missing - 1])) this.#differs = true;
    else if (--this.#missing === 0) this.first = entry.id;
  }
}

/** pi 1.6.0 leaves out system prompts and earlier compactions. */
function asPiShows(entry: Entry): AgentMessage | undefined {
  if (entry.type === "compaction") return undefined;
  const message = asImported(entry);
  return message?.role === "system" ? undefined : message;
}

/** As what is retained is read from a file. */
function asImported(entry: Entry): AgentMessage | undefined {
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
