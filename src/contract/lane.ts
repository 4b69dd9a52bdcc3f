import type { JsonValue } from "./json.ts";
import type { AgentMessage } from "./message.ts";

export type ThinkingLevel = "off" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/** Which model a lane talks to and with what. */
export interface LaneConfiguration {
  model: { provider: string; modelId: string };
  thinkingLevel: ThinkingLevel;
  activeToolNames: string[];
}

/** What a lane is doing. */
export interface LaneState {
  currentOperationId: string | null;
  lastOperationId: string | null;
  inbox: { entryId: string; kind: "steer" | "followUp" | "nextRun" | "write" }[];
}

/** A lane that has nothing to do, as a fork or an import starts it. */
export function idleLaneState(): LaneState {
  return { currentOperationId: null, lastOperationId: null, inbox: [] };
}

/** How an operation on a lane ended. */
export interface OperationResult {
  operationId: string;
  kind: "run" | "compaction" | "navigation";
  status: "completed" | "declined" | "aborted" | "failed";
  error?: { code: string; message: string; details?: JsonValue };
  fromTipId: string | null;
  tipId: string | null;
  startedAt: number;
  endedAt: number;
}

/** Content that waits for its place in the tree. */
export type PendingEntry =
  | { type: "message"; payload: AgentMessage }
  | { type: "custom"; customType: string; payload?: JsonValue };
