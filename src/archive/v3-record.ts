import type { JsonValue } from "../contract/json.ts";
import type { AgentMessage, CustomMessage } from "../contract/message.ts";
import { LineFault, quoted } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";
import { jsonOf } from "./line-reader.ts";

/** A line after the header of a version 3 session. */
export type V3Record =
  | V3Message
  | V3CustomMessage
  | V3BranchSummary
  | V3Compaction
  | V3Custom
  | V3ModelChange
  | V3ThinkingLevelChange
  | V3ActiveToolsChange
  | V3SessionInfo
  | V3Label;

interface V3Base {
  id: string;
  parentId: string | null;
}

/** Records with this have an entry in format 4. The others only set something. */
interface V3Retained extends V3Base {
  /** ISO 8601. */
  timestamp: string;
}

export interface V3Message extends V3Retained {
  type: "message";
  message: AgentMessage;
}

export interface V3CustomMessage extends V3Retained {
  type: "custom_message";
  customType: string;
  content: CustomMessage["content"];
  display: boolean;
  details?: unknown;
}

export interface V3BranchSummary extends V3Retained {
  type: "branch_summary";
  /** `"root"` stands for no entry. */
  fromId: string | null;
  summary: string;
  details?: JsonValue;
  usage?: unknown;
  fromHook?: boolean;
}

export interface V3Compaction extends V3Retained {
  type: "compaction";
  summary: string;
  firstKeptEntryId: string;
  tokensBefore: number;
  details?: JsonValue;
  usage?: unknown;
  fromHook?: boolean;
}

export interface V3Custom extends V3Retained {
  type: "custom";
  customType: string;
  data?: JsonValue;
}

export interface V3ModelChange extends V3Base {
  type: "model_change";
  provider: string;
  modelId: string;
}

export interface V3ThinkingLevelChange extends V3Base {
  type: "thinking_level_change";
  thinkingLevel: string;
}

export interface V3ActiveToolsChange extends V3Base {
  type: "active_tools_change";
  activeToolNames: string[];
}

export interface V3SessionInfo extends V3Base {
  type: "session_info";
  name?: string;
}

export interface V3Label extends V3Base {
  type: "label";
  targetId: string | null;
  /** None takes the label away. */
  label?: string;
}

/** The position of a type in here is its number in an index. */
export const V3_TYPES = [
  "message",
  "custom_message",
  "branch_summary",
  "compaction",
  "custom",
  "model_change",
  "thinking_level_change",
  "active_tools_change",
  "session_info",
  "label",
] as const satisfies readonly V3Record["type"][];

const RETAINED_TYPES: ReadonlySet<string> = new Set(V3_TYPES.slice(0, 5));

export type V3RetainedRecord = V3Message | V3CustomMessage | V3BranchSummary | V3Compaction | V3Custom;

export function isRetainedType(type: V3Record["type"]): type is V3RetainedRecord["type"] {
  return RETAINED_TYPES.has(type);
}

export function isRetained(record: V3Record): record is V3RetainedRecord {
  return isRetainedType(record.type);
}

/** @throws LineFault */
export function parseV3Record(bytes: Buffer): V3Record {
  const json = jsonOf(bytes);
  if (!isJsonObject(json)) throw new LineFault("invalid_record", "the line is no JSON object");
  const record = json as JsonObject & V3Record;
  assertKnownType(json["type"]);
  if (typeof json["id"] !== "string") throw invalid("the `id` of the record is not a string");
  if (typeof json["parentId"] !== "string" && json["parentId"] !== null) {
    throw invalid("the `parentId` of the record is neither a string nor null");
  }
  if (isRetained(record)) assertPayload(record);
  return record;
}

/** When the record was written, in milliseconds since the epoch. */
export function timestampOf(record: V3RetainedRecord): number {
  return Date.parse(record.timestamp);
}

/** The usage that pi counts, as it stands in the file. */
export function usageOf(record: V3Record): unknown {
  switch (record.type) {
    case "message":
      return record.message.role === "assistant" || record.message.role === "toolResult"
        ? record.message.usage
        : undefined;
    case "compaction":
    case "branch_summary":
      return record.usage;
    default:
      return undefined;
  }
}

function assertKnownType(type: unknown): void {
  if ((V3_TYPES as readonly unknown[]).includes(type)) return;
  if (type === "session") {
    throw new LineFault(
      "unsupported_record",
      "a second session header: split the file into one file per session",
    );
  }
  const named =
    typeof type === "string" && /^[\w.:-]{1,64}$/.test(type) ? `type \`${type}\`` : "an unknown type";
  throw new LineFault("unsupported_record", `a record of ${named} is not supported yet`);
}

/** Checks what the importer itself relies on; the rest of a payload is only kept. */
function assertPayload(record: V3RetainedRecord): void {
  if (typeof record.timestamp !== "string" || !Number.isFinite(Date.parse(record.timestamp))) {
    throw invalid("the `timestamp` of the record is no date");
  }
  if (record.type === "message" && !isMessage(record.message)) {
    throw invalid("the `message` of the record is no object with a `role`");
  }
  if (record.type === "custom" && typeof record.customType !== "string") {
    throw invalid("the `customType` of the record is not a string");
  }
  if (record.type === "compaction" && typeof record.firstKeptEntryId !== "string") {
    throw invalid("the `firstKeptEntryId` of the compaction is not a string");
  }
}

function isMessage(json: unknown): boolean {
  return isJsonObject(json) && typeof json["role"] === "string";
}

function invalid(reason: string): LineFault {
  return new LineFault("invalid_record", reason);
}

export function missingReference(what: string, id: unknown): LineFault {
  return new LineFault("missing_reference", `${what} ${quoted(id)} is no record of the file`);
}
