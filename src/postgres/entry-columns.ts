import type { Entry, EntryStructure, EntryType } from "../contract/entry.ts";
import type { AgentMessage } from "../contract/message.ts";
import { storableText } from "../contract/text.ts";
import type { SpendingEntry } from "./usage-attribution.ts";

/** Longest preview in UTF-16 units. */
const PREVIEW_LENGTH = 200;

/** An entry as columns. What has no column of its own is the payload. */
export function entryColumns(entry: Entry) {
  const { id, parentId, seq, timestamp, type, customType, ...payload } = entry;
  const { kind: _, ...fields } = payload as typeof payload & { kind?: string };
  return {
    entry_id: id,
    parent_id: parentId,
    seq,
    timestamp,
    type,
    custom_type: customType ?? null,
    ...speakerColumns(entry),
    preview: entry.type === "message" && entry.message.role === "user" ? previewOf(entry.message) : null,
    payload: fields,
  };
}

/** What an entry tells of the usage that it was spent on. */
export function spendingEntryOf(entry: Entry): SpendingEntry {
  const { timestamp, type } = entry;
  return { ...speakerColumns(entry), timestamp, type };
}

/**
 * What is looked for in messages, taken out here where the object is in hand: SQL cannot extract it from
 * payloads that hold a NUL or a lone surrogate.
 */
function speakerColumns(entry: Entry) {
  const message: AgentMessage | undefined = entry.type === "message" ? entry.message : undefined;
  const assistant = message?.role === "assistant" ? message : undefined;
  return {
    role: columnText(message?.role),
    provider: columnText(assistant?.provider),
    model: columnText(assistant?.model),
  };
}

function columnText(text: unknown): string | null {
  return typeof text === "string" ? storableText(text) : null;
}

/** The start of a message's text on one line, or `null` if it has none. */
export function previewOf(message: { content?: unknown }): string | null {
  const parts: unknown[] = Array.isArray(message.content)
    ? message.content.map((part: { text?: unknown } | null) => part?.text)
    : [message.content];
  const text = parts.find((part): part is string => typeof part === "string" && part.trim() !== "");
  if (text === undefined) return null;
  const start = text
    .trimStart()
    .slice(0, 2 * PREVIEW_LENGTH)
    .replaceAll(/\s+/g, " ");
  return storableText(start.slice(0, PREVIEW_LENGTH).trimEnd());
}

/** Columns that make an entry without its payload. */
export const STRUCTURE_COLUMNS = [
  "entry_id",
  "parent_id",
  "seq",
  "timestamp",
  "type",
  "custom_type",
] as const;

export interface StructureRow {
  entry_id: string;
  parent_id: string | null;
  seq: number;
  timestamp: number;
  type: string;
  custom_type: string | null;
}

export function structureOf(row: StructureRow): EntryStructure {
  return {
    id: row.entry_id,
    parentId: row.parent_id,
    seq: row.seq,
    timestamp: row.timestamp,
    type: row.type as EntryType,
    ...(row.custom_type === null ? {} : { customType: row.custom_type }),
  };
}

export function entryOf(row: StructureRow & { payload: string }): Entry {
  return { ...JSON.parse(row.payload), ...structureOf(row) } as Entry;
}
