import type { JsonValue } from "../contract/json.ts";
import type { AgentMessage, CustomMessage } from "../contract/message.ts";
import { type ArchiveErrorCode, LineFault, quoted } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/** A line after the header of a version 3 session. */
export type V3Record =
  | V3Message
  | V3CustomMessage
  | V3BranchSummary
  | V3Compaction
  | V3Custom
  | V3ContextEdit
  | V3Other
  | V3Usage
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
  /** Its own id if it keeps nothing. */
  firstKeptEntryId: string;
  tokensBefore: number;
  details?: JsonValue;
  usage?: unknown;
  fromHook?: boolean;
  /** The system prompt that applied when it was made. */
  systemMessage?: AgentMessage;
}

export interface V3Custom extends V3Retained {
  type: "custom";
  customType: string;
  data?: JsonValue;
}

/** Changes, on its branch, what the model gets of an earlier record. */
export interface V3ContextEdit extends V3Retained {
  type: "context_edit";
  targetId: string;
  /** `null` takes the target out of the context. */
  replacement: { content: unknown } | null;
}

/** A record that this package knows nothing about, as programs that embed pi write them. */
export interface V3Other extends V3Retained {
  type: "other";
  /** The type that stands in the file, and the fields that no other record has. */
  original: { type: string; fields: JsonObject };
}

/** Something was spent that is in no message. */
export interface V3Usage extends V3Retained {
  type: "usage";
  kind?: unknown;
  provider?: unknown;
  model?: unknown;
  note?: unknown;
  usage: unknown;
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

/** The position of a type in here is its number in an index; those that have an entry come first. */
export const V3_TYPES = [
  "message",
  "custom_message",
  "branch_summary",
  "compaction",
  "custom",
  "context_edit",
  "other",
  "usage",
  "model_change",
  "thinking_level_change",
  "active_tools_change",
  "session_info",
  "label",
] as const satisfies readonly V3Record["type"][];

const RETAINED_TYPES: ReadonlySet<string> = new Set(V3_TYPES.slice(0, 7));

export type V3RetainedRecord =
  | V3Message
  | V3CustomMessage
  | V3BranchSummary
  | V3Compaction
  | V3Custom
  | V3ContextEdit
  | V3Other;

/** Whether this package knows what the record says. */
export function isV3Type(type: string): type is V3Record["type"] {
  return type !== "other" && (V3_TYPES as readonly string[]).includes(type);
}

export function isRetainedType(type: V3Record["type"]): type is V3RetainedRecord["type"] {
  return RETAINED_TYPES.has(type);
}

export function isRetained(record: V3Record): record is V3RetainedRecord {
  return isRetainedType(record.type);
}

/** The place of a record in the tree. */
export interface V3Place {
  readonly id: string;
  readonly parentId: string | null;
}

/** The place of a record in the tree, whatever else it holds; `undefined` if it says none. */
export function structureOf(json: JsonObject): V3Place | undefined {
  const { id, parentId } = json;
  return typeof id === "string" && (typeof parentId === "string" || parentId === null)
    ? { id, parentId }
    : undefined;
}

/**
 * @returns `undefined` for a record of unknown type that says no place in the tree
 * @throws LineFault
 */
export function v3Record(json: JsonObject): V3Record | undefined {
  const { type } = json;
  if (typeof type !== "string") throw invalid("the `type` of the record is not a string");
  if (type === "session") {
    throw fault("unsupported_record", "a second session header: split the file into one file per session");
  }
  const isKnown = isV3Type(type);
  if (!isKnown && structureOf(json) === undefined) return undefined;
  const record = isKnown ? (json as JsonObject & V3Record) : otherRecord(json, type);
  if (typeof json["id"] !== "string") throw invalid("the `id` of the record is not a string");
  if (typeof json["parentId"] !== "string" && json["parentId"] !== null) {
    throw invalid("the `parentId` of the record is neither a string nor null");
  }
  if (isRetained(record) || record.type === "usage") assertPayload(record);
  return record;
}

function otherRecord(json: JsonObject, type: string): V3Other {
  const { type: _, id, parentId, timestamp, ...fields } = json;
  return { type: "other", id, parentId, timestamp, original: { type, fields } } as V3Other;
}

/** When the record was written, in milliseconds since the epoch. */
export function timestampOf(record: V3RetainedRecord | V3Usage): number {
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
    case "usage":
      return record.usage;
    default:
      return undefined;
  }
}

/** Checks what the importer itself relies on; the rest of a payload is only kept. */
function assertPayload(record: V3RetainedRecord | V3Usage): void {
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
  if (record.type === "context_edit" && !isEdit(record)) {
    throw invalid("the context edit has no `targetId`, or its `replacement` is neither null nor an object");
  }
}

function isMessage(json: unknown): boolean {
  return isJsonObject(json) && typeof json["role"] === "string";
}

function isEdit({ targetId, replacement }: V3ContextEdit): boolean {
  return typeof targetId === "string" && (replacement === null || isJsonObject(replacement));
}

function invalid(reason: string): LineFault {
  return fault("invalid_record", reason);
}

function fault(code: ArchiveErrorCode, reason: string): LineFault {
  return new LineFault(code, reason);
}

export function missingReference(what: string, id: unknown): LineFault {
  return new LineFault("missing_reference", `${what} ${quoted(id)} is no record of the file`);
}
