import { createHash } from "node:crypto";
import type { BranchSummaryEntry, CompactionEntry } from "../contract/entry.ts";
import type { LaneConfiguration } from "../contract/lane.ts";
import type { CustomMessage } from "../contract/message.ts";
import { RECORD_PREFIX } from "../contract/record.ts";
import type { StoredEntry, StoredUsage } from "../postgres/read-writes.ts";
import type { PgSessionMetadata } from "../postgres/session-row.ts";
import { isoTime } from "./archive-name.ts";
import { isJsonObject } from "./json-object.ts";
import { members } from "./json-text.ts";
import { V3_TYPES } from "./v3-record.ts";

/** Where a record stands in the file. */
export interface RecordPlace {
  readonly id: string;
  readonly parentId: string | null;
  /** Milliseconds since the epoch. */
  readonly time: number;
}

export function v3Header({ id, createdAt, cwd = "" }: PgSessionMetadata, parentSession?: string): string {
  const header = { type: "session", version: 3, id, timestamp: isoTime(createdAt), cwd, parentSession };
  return `${JSON.stringify(header)}\n`;
}

/** Of a message that is no custom one, in the order in which pi writes the members. */
export function messageLine(entry: StoredEntry, place: RecordPlace): string {
  return line({ type: "message", ...base(place), customType: entry.customType }, entry.payload);
}

/** pi writes custom messages as records of their own, whose time is that of the message. */
export function customMessageLine(message: CustomMessage, place: RecordPlace): string {
  const { customType, content, display, details } = message;
  return line({ type: "custom_message", customType, content, display, details, ...base(place) });
}

/** Whether a record of a custom message can say all of it. */
export function isCustomMessage(message: unknown, time: number): message is CustomMessage {
  if (!isJsonObject(message)) return false;
  const { role, customType, content, details: _, display, timestamp, ...others } = message;
  return (
    role === "custom" &&
    typeof customType === "string" &&
    content !== undefined &&
    typeof display === "boolean" &&
    timestamp === time &&
    Object.keys(others).length === 0
  );
}

export function customLine({ customType, payload }: StoredEntry, place: RecordPlace): string {
  const record = keptRecord(customType, payload);
  return record === undefined
    ? line({ type: "custom", customType }, payload, base(place))
    : line({ type: record.type, ...base(place) }, record.fields);
}

/** The record that an entry stands for which was imported from a type that no other entry can hold. */
function keptRecord(customType = "", payload: string): { type: string; fields: object } | undefined {
  const type = customType.slice(RECORD_PREFIX.length);
  if (!customType.startsWith(RECORD_PREFIX) || !isKept(type)) return undefined;
  const { data } = JSON.parse(payload) as { data?: unknown };
  return isJsonObject(data) ? { type, fields: data } : undefined;
}

function isKept(type: string): boolean {
  return type === "context_edit" || !["session", ...V3_TYPES].includes(type);
}

export function branchSummaryLine(entry: BranchSummaryEntry, place: RecordPlace): string {
  const { id: _id, parentId: _parent, seq: _seq, timestamp: _time, type, fromId, ...fields } = entry;
  // "root" stands for no entry.
  return line({ type, ...base(place), fromId: fromId ?? "root", ...fields });
}

export function compactionLine(entry: CompactionEntry, firstKeptEntryId: string, place: RecordPlace): string {
  const { id: _id, parentId: _parent, seq: _seq, timestamp: _time, ...fields } = entry;
  const { type, summary, retainedTail: _, ...others } = fields;
  return line({ type, ...base(place), summary, firstKeptEntryId, ...others });
}

export function nameLine(name: string, place: RecordPlace): string {
  return line({ type: "session_info", ...base(place), name });
}

/** Without a label: takes it away. */
export function labelLine(targetId: string, label: string | undefined, place: RecordPlace): string {
  return line({ type: "label", ...base(place), targetId, label });
}

export function modelLine({ model }: LaneConfiguration, place: RecordPlace): string {
  return line({ type: "model_change", ...base(place), provider: model.provider, modelId: model.modelId });
}

export function thinkingLevelLine({ thinkingLevel }: LaneConfiguration, place: RecordPlace): string {
  return line({ type: "thinking_level_change", ...base(place), thinkingLevel });
}

export function activeToolsLine({ activeToolNames }: LaneConfiguration, place: RecordPlace): string {
  return line({ type: "active_tools_change", ...base(place), activeToolNames });
}

/** Of a row that no message says. Rows that were imported from such a record say what it was. */
export function usageLine(row: StoredUsage, place: RecordPlace): string {
  const details: unknown = JSON.parse(row.details ?? "null");
  const told = isJsonObject(details) ? details : {};
  const { kind = row.adjustment ? "adjustment" : "call", note } = told;
  const { provider = row.provider ?? "unknown", model = row.model ?? "unknown" } = told;
  const head = { type: "usage", ...base(place), kind, provider, model };
  return line(head, `{"usage":${row.usage}}`, { note });
}

/** An id for a record that has no entry: the same in each export, and no entry's. */
export function recordId(...parts: (string | number | null)[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}

function line(...objects: (object | string)[]): string {
  return `{${members(...objects)}}\n`;
}

function base({ id, parentId, time }: RecordPlace) {
  return { id, parentId, timestamp: isoTime(time) };
}
