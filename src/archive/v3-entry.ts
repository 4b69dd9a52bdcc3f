import type { Entry } from "../contract/entry.ts";
import type { AgentMessage, CustomMessage } from "../contract/message.ts";
import type { Usage } from "../contract/usage.ts";
import type { V3Index } from "./v3-index.ts";
import {
  timestampOf,
  type V3BranchSummary,
  type V3Compaction,
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
}

/** @throws LineFault when a branch summary is of a record that is not there */
export function entryOf(
  record: V3RetainedRecord,
  place: V3EntryPlace,
  index: V3Index,
): Entry & { kind: "entry" } {
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
      return {
        ...base,
        type: "branch_summary",
        fromId: summarizedId(record, index),
        ...summaryFields(record),
      };
    case "compaction": {
      const { retainedTail } = place;
      return {
        ...base,
        type: "compaction",
        ...summaryFields(record),
        retainedTail,
        tokensBefore: record.tokensBefore,
      };
    }
    case "custom": {
      const { customType, data } = record;
      return { ...base, type: "custom", customType, ...(data === undefined ? {} : { data }) };
    }
  }
}

/** What a model got to read of a record, if anything. */
export function contextMessage(record: V3Record, index: V3Index): AgentMessage | undefined {
  switch (record.type) {
    case "message":
      return record.message;
    case "custom_message":
      return customMessage(record);
    case "branch_summary": {
      if (!record.summary) return undefined;
      const fromId = summarizedId(record, index);
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

/** A summary of a branch that began above the first entry says "root" instead of null. */
function summarizedId({ fromId }: V3BranchSummary, index: V3Index): string | null {
  return fromId === "root" ? null : index.resolve("the summarized entry", fromId);
}
