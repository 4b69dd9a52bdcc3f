import type { Context } from "./context.ts";
import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";
import type { Usage } from "./usage.ts";

/** One immutable node of the conversation tree. Tell the kinds apart by `type`. */
export type Entry = MessageEntry | CompactionEntry | BranchSummaryEntry | CustomEntry;

/** The four kinds of {@link Entry}. */
export type EntryType = "message" | "compaction" | "branch_summary" | "custom";

/** What every kind of {@link Entry} has. */
export interface EntryBase {
  /** Opaque, up to 512 bytes of UTF-8; unique among the entries and usage rows of its session. */
  id: string;
  /** The entry that this one follows, committed earlier in the session or in the same commit; `null` at a root. */
  parentId: string | null;
  /** Position of the write in its session; strictly increasing, with gaps. Assigned by the commit. */
  seq: number;
  /** When it was committed, in milliseconds since the epoch; an imported entry keeps the time of its archive. */
  timestamp: number;
  /** Which kind of entry this is. */
  type: EntryType;
  /** What the application calls this entry, up to 512 bytes of UTF-8. Required for `custom`, optional elsewhere. */
  customType?: string;
}

/** One message of the conversation. */
export interface MessageEntry extends EntryBase {
  type: "message";
  /** Stored as it is given. Its `timestamp` is the sender's; that of the entry is the commit's. */
  message: AgentMessage;
  /** A hint of the agent harness that the run may end after this tool result. Stored, never interpreted. */
  terminate?: true;
}

/** Replaces everything before it, in the model's context, by a summary and a tail of retained messages. */
export interface CompactionEntry extends EntryBase {
  type: "compaction";
  /** Summary of what it replaces. */
  summary: string;
  /** Messages that the model still gets word for word, after the summary. */
  retainedTail: AgentMessage[];
  /** Estimated size of the context before the compaction, in tokens. */
  tokensBefore: number;
  /** System prompt that the model still gets, before the summary. Later releases of pi keep it here. */
  systemMessage?: AgentMessage;
  /** Data of the writer; never interpreted here. */
  details?: JsonValue;
  /** What making the summary consumed. Not part of the session's totals: those come from usage rows only. */
  usage?: Usage;
  /** Whether a hook of the application made the summary instead of the harness. */
  fromHook: boolean;
}

/** Tells the model what happened on a branch that was left. */
export interface BranchSummaryEntry extends EntryBase {
  type: "branch_summary";
  /** Last entry of the branch that was left; `null` if it was empty. It need not exist. */
  fromId: string | null;
  /** Summary of that branch. If it is empty, the model gets nothing. */
  summary: string;
  /** Data of the writer; never interpreted here. */
  details?: JsonValue;
  /** What making the summary consumed. Not part of the session's totals: those come from usage rows only. */
  usage?: Usage;
  /** Whether a hook of the application made the summary instead of the harness. */
  fromHook: boolean;
}

/** An entry whose meaning belongs to the application. The model gets it only through an {@link EntryProjector}. */
export interface CustomEntry extends EntryBase {
  type: "custom";
  /** What the application calls this entry, up to 512 bytes of UTF-8. */
  customType: string;
  /** Any JSON value. */
  data?: JsonValue;
}

/** An entry as it is handed to a commit, which adds `seq` and `timestamp`. */
export type NewEntry<TEntry extends Entry = Entry> = TEntry extends Entry
  ? Omit<TEntry, "seq" | "timestamp">
  : never;

/** Place and kind of an entry, without its payload. */
export interface EntryStructure {
  /** Id of the entry. */
  id: string;
  /** The entry that this one follows; `null` at a root. */
  parentId: string | null;
  /** Position of the write in its session; strictly increasing, with gaps. */
  seq: number;
  /** When it was committed, in milliseconds since the epoch. */
  timestamp: number;
  /** Which kind of entry this is. */
  type: EntryType;
  /** What the application calls this entry. */
  customType?: string;
}

/** Turns a custom entry into messages for the model; `undefined` or an empty array leaves it out. */
export type EntryProjector = (
  entry: CustomEntry,
  context: Context,
) => AgentMessage[] | undefined | Promise<AgentMessage[] | undefined>;
