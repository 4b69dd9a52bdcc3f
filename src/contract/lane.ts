import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";

/** How much a model is asked to think, from not at all to as much as it can. */
export type ThinkingLevel = "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/** The model that a lane talks to, and the tools that it offers it. */
export interface LaneConfiguration {
  /** Names of the provider and of its model. */
  model: { provider: string; modelId: string };
  /** How much the model is asked to think. */
  thinkingLevel: ThinkingLevel;
  /** Names of the tools that the model may call. */
  activeToolNames: string[];
}

/** What a lane is doing and what waits for it. Kept by the agent harness; never interpreted here. */
export interface LaneState {
  /** The operation that runs; `null` while the lane is idle. */
  currentOperationId: string | null;
  /** The operation that ended last; `null` before the first one has. */
  lastOperationId: string | null;
  /**
   * Content that waits for its place in the tree, in order: the id of each {@link PendingEntry}, and when it is due.
   */
  inbox: { entryId: string; kind: "steer" | "followUp" | "nextRun" | "write" }[];
}

/** A new state of a lane without operations and with an empty inbox, as forks and imports start it. */
export function idleLaneState(): LaneState {
  return { currentOperationId: null, lastOperationId: null, inbox: [] };
}

/** How an operation on a lane ended. Written by the agent harness; never interpreted here. */
export interface OperationResult {
  /** Id of the operation; the key under which this is stored. */
  operationId: string;
  /** What the operation was: a run of the agent, a compaction, or a move to another entry. */
  kind: "run" | "compaction" | "navigation";
  /** How it ended. */
  status: "completed" | "declined" | "aborted" | "failed";
  /** Why it failed. */
  error?: { code: string; message: string; details?: JsonValue };
  /** Tip of the lane when the operation began; `null` if the lane was empty. */
  fromTipId: string | null;
  /** Tip of the lane when the operation ended; `null` if the lane was empty. */
  tipId: string | null;
  /** Milliseconds since the epoch. */
  startedAt: number;
  /** Milliseconds since the epoch. */
  endedAt: number;
}

/** Content that was accepted and waits for its place in the tree: a message, or the data of a custom entry. */
export type PendingEntry =
  | { type: "message"; payload: AgentMessage }
  | { type: "custom"; customType: string; payload?: JsonValue };
