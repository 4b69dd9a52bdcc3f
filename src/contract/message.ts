import type { ReadonlyJsonObject, ReadonlyJsonValue } from "./json.ts";
import type { Usage } from "./usage.ts";

/**
 * A message as it is stored, in the shape of pi's agent messages (pi-agent-core 0.87.1). Its content is kept, never
 * interpreted. Tell the kinds apart by `role`.
 */
export type AgentMessage =
  | SystemMessage
  | UserMessage
  | AssistantMessage
  | ToolResultMessage
  | BashExecutionMessage
  | CustomMessage
  | BranchSummaryMessage
  | CompactionSummaryMessage;

/** Text in a message. */
export interface TextContent {
  type: "text";
  /** Any string, NUL characters and lone surrogates included. */
  text: string;
  /** What the provider wants to get back with this text. */
  textSignature?: string;
}

/** What the model thought before it answered. */
export interface ThinkingContent {
  type: "thinking";
  /** The thoughts as text, or a summary of them. */
  thinking: string;
  /** What the provider wants to get back with these thoughts. */
  thinkingSignature?: string;
  /** Whether the provider withholds the thoughts; then only `thinkingSignature` holds them, encrypted. */
  redacted?: boolean;
}

/** An image in a message. */
export interface ImageContent {
  type: "image";
  /** The image file, in Base64. */
  data: string;
  /** For example `image/png`. */
  mimeType: string;
}

/** A tool call that the model asks for. */
export interface ToolCallContent {
  type: "toolCall";
  /** Names the call; its {@link ToolResultMessage} repeats it as `toolCallId`. */
  id: string;
  /** Name of the tool. */
  name: string;
  /** What the tool is called with. */
  arguments: ReadonlyJsonObject;
  /** What the provider wants to get back with this call. */
  thoughtSignature?: string;
  /** The group that the provider knows the tool by, if it was loaded in one. */
  namespace?: string;
}

/** A tool as it is offered to the model. */
export interface ToolDeclaration {
  /** Name of the tool, by which the model calls it. */
  name: string;
  /** What it does, for the model. */
  description: string;
  /** JSON Schema of its arguments. */
  parameters: object;
  /** How the provider is to enforce the form of the arguments: not at all, by their schema, or by a grammar. */
  constrainedSampling?:
    | false
    | { type: "json_schema"; strict: "prefer" | "require" }
    | { type: "grammar"; variants: { openai_lark?: string; openai_regex?: string } };
}

/**
 * Instructions and tools for the model. The first one of a path is the system prompt; later ones change it from their
 * place on.
 */
export interface SystemMessage {
  role: "system";
  /** The instructions, or further ones. */
  content: string | TextContent[];
  /** Named parts of the prompt that this message sets or, with `null`, removes. */
  sections?: Record<string, string | null>;
  /** Tools that the model may call from here on. */
  toolsAdded?: ToolDeclaration[];
  /** Tools that the model may no longer call from here on. */
  toolsRemoved?: { name: string }[];
  /** When the message was made, in milliseconds since the epoch. */
  timestamp: number;
}

/** What the user said. */
export interface UserMessage {
  role: "user";
  /** Text, or a sequence of texts and images. */
  content: string | (TextContent | ImageContent)[];
  /** When the message was made, in milliseconds since the epoch. */
  timestamp: number;
}

/**
 * Why an assistant message ended. `pending`: it has not yet, so it cannot become an entry. `deferred`: the answer is
 * to be fetched later. With `error`, `aborted` or `deferred` it is left out of the model's context.
 */
export type StopReason = "pending" | "stop" | "length" | "toolUse" | "error" | "aborted" | "deferred";

/** How to fetch an answer that the provider gives later. */
export interface DeferredHandle {
  /** Name of the provider. */
  provider: string;
  /** The provider's name of the model. */
  modelId: string;
  /** Name of the API that was called. */
  api: string;
  /** What the provider knows the answer by. */
  id: string;
  /** Until when it can be fetched, in milliseconds since the epoch. */
  expiresAt?: number;
  /** How long to wait before asking, in milliseconds. */
  pollAfterMs?: number;
  /** What else is needed to build the message from the answer. */
  data?: ReadonlyJsonValue;
}

/** Something worth knowing about how an assistant message came about. */
export interface AssistantDiagnostic {
  /** What kind of event it was. */
  type: string;
  /** When it happened, in milliseconds since the epoch. */
  timestamp: number;
  /** The error that was behind it. */
  error?: { name?: string; message: string; stack?: string; code?: string | number };
  /** Further data, by type. */
  details?: ReadonlyJsonObject;
}

/** What the model answered. */
export interface AssistantMessage {
  role: "assistant";
  /** Texts, thoughts and tool calls, in the order of the answer. */
  content: (TextContent | ThinkingContent | ToolCallContent)[];
  /** Name of the API that was called. */
  api: string;
  /** Name of the provider. Usage reports group by it. */
  provider: string;
  /** Name of the model that was asked for. Usage reports group by it. */
  model: string;
  /** The model that answered, if the provider names another one. */
  responseModel?: string;
  /** The provider's id of the answer. */
  responseId?: string;
  /** The thinking level in the provider's own terms. */
  providerThinkingLevel?: string;
  /** What happened on the way to this answer. */
  diagnostics?: AssistantDiagnostic[];
  /**
   * What the call consumed. It counts in the session's totals only if a usage row repeats it, which importers write
   * and programs write with `insertUsage`.
   */
  usage: Usage;
  /** Why the message ended. A message with `pending` cannot become an entry. */
  stopReason: StopReason;
  /** How to fetch the answer, with stop reason `deferred`. */
  deferred?: DeferredHandle;
  /** What went wrong, with stop reason `error` or `aborted`. */
  errorMessage?: string;
  /** The provider's own word for the stop reason. */
  rawStopReason?: string;
  /** Whether the model itself said that it was done, if the provider tells. */
  endTurn?: boolean;
  /** When the message was made, in milliseconds since the epoch. */
  timestamp: number;
}

/** What a tool returned. */
export interface ToolResultMessage {
  role: "toolResult";
  /** `id` of the tool call that this answers. */
  toolCallId: string;
  /** Name of the tool. */
  toolName: string;
  /** What the model gets to see. */
  content: (TextContent | ImageContent)[];
  /** What the tool returned for the application, not for the model. */
  details?: ReadonlyJsonValue;
  /**
   * What the tool itself consumed by calling models. Not part of the session's totals: those come from usage rows
   * only.
   */
  usage?: Usage;
  /** Whether the call failed. */
  isError: boolean;
  /** When the message was made, in milliseconds since the epoch. */
  timestamp: number;
}

/** A shell command that the user ran beside the conversation. */
export interface BashExecutionMessage {
  role: "bashExecution";
  /** The command line. */
  command: string;
  /** What it printed, perhaps shortened. */
  output: string;
  /** `undefined` if it did not end by itself. */
  exitCode: number | undefined;
  /** Whether the user stopped it. */
  cancelled: boolean;
  /** Whether `output` was shortened. */
  truncated: boolean;
  /** File with the whole output, if it was shortened. */
  fullOutputPath?: string;
  /** When it ran, in milliseconds since the epoch. */
  timestamp: number;
  /** Whether the harness keeps it from the model. `buildSessionContext` returns it all the same. */
  excludeFromContext?: boolean;
}

/** A message of a kind that the application defines. */
export interface CustomMessage<T = unknown> {
  role: "custom";
  /** What the application calls this kind. */
  customType: string;
  /** What the model gets to see. */
  content: string | (TextContent | ImageContent)[];
  /** Whether user interfaces show it. */
  display: boolean;
  /** Data of the application; never interpreted here. */
  details?: T;
  /** When the message was made, in milliseconds since the epoch. */
  timestamp: number;
}

/** What the model is told about a branch that was left; made from a `branch_summary` entry. */
export interface BranchSummaryMessage {
  role: "branchSummary";
  /** Summary of that branch. */
  summary: string;
  /** Last entry of that branch; `null` if it was empty. */
  fromId: string | null;
  /** That of the entry, in milliseconds since the epoch. */
  timestamp: number;
}

/** What the model is told instead of what was compacted; made from a `compaction` entry. */
export interface CompactionSummaryMessage {
  role: "compactionSummary";
  /** Summary of what was compacted. */
  summary: string;
  /** Estimated size of the context before the compaction, in tokens. */
  tokensBefore: number;
  /** That of the entry, in milliseconds since the epoch. */
  timestamp: number;
}
