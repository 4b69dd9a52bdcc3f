import type { Entry } from "../contract/entry.ts";
import type { JsonValue } from "../contract/json.ts";
import type { AgentMessage, CustomMessage } from "../contract/message.ts";
import { RECORD_PREFIX } from "../contract/record.ts";
import type { Usage } from "../contract/usage.ts";
import {
  timestampOf,
  type V3BranchSummary,
  type V3Compaction,
  type V3ContextEdit,
  type V3CustomMessage,
  type V3Record,
  type V3RetainedRecord,
} from "./v3-record.ts";

/** What the entry of a record needs to know about other records. */
export interface V3EntryPlace {
  readonly parentId: string | null;
  readonly seq: number;
  /** Of a compaction. */
  readonly retainedTail: AgentMessage[];
  /** Of a branch summary: the entry that stands for the record which it names. */
  readonly fromId: string | null;
}

export function entryOf(record: V3RetainedRecord, place: V3EntryPlace): Entry & { kind: "entry" } {
  const base = {
    kind: "entry" as const,
    id: record.id,
    parentId: place.parentId,
    seq: place.seq,
    timestamp: timestampOf(record),
  };
  switch (record.type) {
    case "message":
      return { ...base, type: "message", message: record.message };
    case "custom_message":
      return { ...base, type: "message", message: customMessage(record) };
    case "branch_summary":
      return { ...base, type: "branch_summary", fromId: place.fromId, ...summaryFields(record) };
    case "compaction": {
      const { retainedTail } = place;
      return {
        ...base,
        type: "compaction",
        ...summaryFields(record),
        retainedTail,
        tokensBefore: record.tokensBefore,
        ...(record.systemMessage === undefined ? {} : { systemMessage: record.systemMessage }),
      };
    }
    case "custom": {
      const { customType, data } = record;
      return { ...base, type: "custom", customType, ...(data === undefined ? {} : { data }) };
    }
    case "context_edit":
      return { ...base, type: "custom", ...keptRecord(record.type, fieldsOf(record)) };
    case "other":
      return { ...base, type: "custom", ...keptRecord(record.original.type, record.original.fields) };
  }
}

function keptRecord(type: string, fields: object): { customType: string; data: JsonValue } {
  return { customType: `${RECORD_PREFIX}${type}`, data: fields as JsonValue };
}

function fieldsOf({ type: _, id: __, parentId: ___, timestamp: ____, ...fields }: V3ContextEdit): object {
  return fields;
}

/** What a model got to read of a record, if anything. `fromId`: as in {@link V3EntryPlace}. */
export function contextMessage(record: V3Record, fromId: string | null): AgentMessage | undefined {
  switch (record.type) {
    case "message":
      return record.message;
    case "custom_message":
      return customMessage(record);
    case "branch_summary": {
      if (!record.summary) return undefined;
      return { role: "branchSummary", summary: record.summary, fromId, timestamp: timestampOf(record) };
    }
    case "compaction": {
      const { summary, tokensBefore } = record;
      return { role: "compactionSummary", summary, tokensBefore, timestamp: timestampOf(record) };
    }
    default:
      return undefined;
  }
}

function customMessage(record: V3CustomMessage): CustomMessage {
  const { customType, content, details, display } = record;
  return {
    role: "custom",
    customType,
    content,
    ...(details === undefined ? {} : { details }),
    display,
    timestamp: timestampOf(record),
  };
}

function summaryFields({ summary, details, usage, fromHook }: V3BranchSummary | V3Compaction) {
  return {
    summary,
    ...(details === undefined ? {} : { details }),
    ...(usage === undefined ? {} : { usage: usage as Usage }),
    fromHook: fromHook ?? false,
  };
}
