import type { AgentMessage } from "../contract/message.ts";
import { ArchiveError } from "./errors.ts";
import { MAX_LINE_BYTES } from "./line-reader.ts";
import { contextMessage } from "./v3-entry.ts";
import type { V3Index } from "./v3-index.ts";
import type { V3Compaction } from "./v3-record.ts";
import type { V3Records } from "./v3-records.ts";
import type { V3References } from "./v3-references.ts";

/** The messages that a compaction retains. */
export interface RetainedTail {
  readonly messages: AgentMessage[];
  /** Of their lines. */
  readonly bytes: number;
}

export const NO_TAIL: RetainedTail = { messages: [], bytes: 0 };

/** @throws ArchiveError: it becomes part of one entry, which is subject to the same limits as a line */
export async function retainedTail(
  compaction: V3Compaction,
  number: number,
  {
    path,
    index,
    records,
    references,
  }: {
    path: string;
    index: V3Index;
    records: V3Records;
    references: V3References;
  },
): Promise<RetainedTail> {
  const messages: AgentMessage[] = [];
  let bytes = 0;
  for (const kept of references.kept(compaction, number)) {
    const record = await records.at(kept);
    const message = record && contextMessage(record, references.fromId(record, kept));
    if (message === undefined) continue;
    messages.push(message);
    bytes += index.place(kept).length;
    if (bytes > MAX_LINE_BYTES) {
      const reason = `the compaction keeps messages of more than ${MAX_LINE_BYTES} bytes`;
      throw new ArchiveError("line_too_long", { path, line: index.line(number) }, reason);
    }
  }
  return { messages, bytes };
}
