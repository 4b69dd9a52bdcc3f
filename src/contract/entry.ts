import type { Context } from "./context.ts";
import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";
import type { Usage } from "./usage.ts";

/** One immutable node of the conversation tree. */
export type Entry = MessageEntry | CompactionEntry | BranchSummaryEntry | CustomEntry;

export type EntryType = "message" | "compaction" | "branch_summary" | "custom";

export interface EntryBase {
  /** Opaque; unique among the entries and usage rows of its session. */
  id: string;
  /** `null` at a root. */
  parentId: string | null;
  /** Position of the write in its session; strictly increasing, with gaps. */
  seq: number;
  /** Milliseconds since the epoch, of the commit. */
  timestamp: number;
  type: EntryType;
  customType?: string;
}

export interface MessageEntry extends EntryBase {
  type: "message";
  message: AgentMessage;
  terminate?: true;
}

/** Replaces everything before it in the model's context by a summary and a tail of kept messages. */
export interface CompactionEntry extends EntryBase {
  type: "compaction";
  summary: string;
  retainedTail: AgentMessage[];
  tokensBefore: number;
  details?: JsonValue;
  usage?: Usage;
  fromHook: boolean;
}

export interface BranchSummaryEntry extends EntryBase {
  type: "branch_summary";
  fromId: string | null;
  summary: string;
  details?: JsonValue;
  usage?: Usage;
  fromHook: boolean;
}

/** An entry whose meaning belongs to the application. */
export interface CustomEntry extends EntryBase {
  type: "custom";
  customType: string;
  data?: JsonValue;
}

/** An entry as it is handed to a commit, which gives it `seq` and `timestamp`. */
export type NewEntry<TEntry extends Entry = Entry> = TEntry extends Entry
  ? Omit<TEntry, "seq" | "timestamp">
  : never;

/** An entry without its payload. */
export interface EntryStructure {
  id: string;
  parentId: string | null;
  seq: number;
  timestamp: number;
  type: EntryType;
  customType?: string;
}

/** Turns a custom entry into messages for the model; `undefined` leaves it out. */
export type EntryProjector = (
  entry: CustomEntry,
  context: Context,
) => AgentMessage[] | undefined | Promise<AgentMessage[] | undefined>;
