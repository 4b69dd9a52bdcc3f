import { InvalidOptionError } from "./errors.ts";
import type { LaneConfiguration, LaneState, OperationResult, PendingEntry } from "./lane.ts";
import { assertText, TEXT_LIMITS } from "./text.ts";

declare const storedType: unique symbol;

/** Where a value or a list lives: a namespace and a key in it. Keys sort by Unicode code point. */
export interface Address {
  readonly namespace: string;
  readonly key: string;
  readonly kind: "value" | "list";
}

/** Address of a current value: set, overwritten, deleted; without history. */
export interface Value<T> extends Address {
  readonly kind: "value";
  readonly [storedType]?: (value: T) => T;
}

/** Address of an append-only list, deleted only whole. */
export interface ValueList<T> extends Address {
  readonly kind: "list";
  readonly [storedType]?: (value: T) => T;
}

export interface StoredValue<T> {
  address: Value<T>;
  value: T;
  seq: number;
}

export interface ListElement<T> {
  seq: number;
  value: T;
}

export interface ListCursor {
  seq: number;
}

export interface ListReadOptions {
  /** Exclusive: reading goes on after (`asc`) or before (`desc`) this element. */
  cursor?: ListCursor;
  /** Default `asc`. */
  order?: "asc" | "desc";
  /** Default 1,000, at most 10,000. */
  limit?: number;
}

const DEFAULT_LIST_LIMIT = 1_000;
const MAX_LIST_LIMIT = 10_000;

/**
 * The address of a value. The key is empty where a namespace holds one value only.
 *
 * @throws InvalidTextError when namespace or key cannot be stored.
 */
export function value<T>(namespace: string, key = ""): Value<T> {
  assertAddress(namespace, key);
  return Object.freeze({ namespace, key, kind: "value" });
}

/**
 * The address of a list.
 *
 * @throws InvalidTextError when namespace or key cannot be stored.
 */
export function list<T>(namespace: string, key = ""): ValueList<T> {
  assertAddress(namespace, key);
  return Object.freeze({ namespace, key, kind: "list" });
}

/** @throws InvalidTextError when namespace or key cannot be stored. */
export function assertAddress(namespace: string, key: string): void {
  assertText("namespace", namespace, { maxBytes: TEXT_LIMITS.namespace, empty: false });
  assertText("key", key, { maxBytes: TEXT_LIMITS.key, empty: true });
}

/**
 * Fills in the defaults of a list read and clamps its limit.
 *
 * @throws InvalidOptionError when the limit is no positive safe integer.
 */
export function resolveListRead(options: ListReadOptions = {}): {
  cursor: ListCursor | undefined;
  order: "asc" | "desc";
  limit: number;
} {
  const limit = options.limit ?? DEFAULT_LIST_LIMIT;
  if (!Number.isSafeInteger(limit) || limit <= 0) {
    throw new InvalidOptionError("limit", limit, `pass a whole number from 1 to ${MAX_LIST_LIMIT}`);
  }
  return { cursor: options.cursor, order: options.order ?? "asc", limit: Math.min(limit, MAX_LIST_LIMIT) };
}

/** The tip of a branch: an entry id, or `null` while the branch is empty. The branch exists while this value does. */
export const branchTip = (branch: string): Value<string | null> => value("pi.branch.tip", branch);
/** Prefix of all branch tips. */
export const branchTips = (): Value<string | null> => value("pi.branch.tip");
export const laneConfig = (lane: string): Value<LaneConfiguration> => value("pi.lane.config", lane);
export const laneState = (lane: string): Value<LaneState> => value("pi.lane.state", lane);
export const sessionName: Value<string> = value("pi.session.name");
export const entryLabel = (entryId: string): Value<string> => value("pi.entry.label", entryId);
export const pendingEntry = (entryId: string): Value<PendingEntry> => value("pi.pending.entry", entryId);
export const operationResult = (operationId: string): Value<OperationResult> =>
  value("pi.result", operationId);

// What a running operation keeps is the harness's own business: this package stores it and never looks inside.
export const operationMeta = <T = unknown>(operationId: string): Value<T> => value("pi.op.meta", operationId);
export const operationState = <T = unknown>(operationId: string): Value<T> =>
  value("pi.op.state", operationId);
export const operationToolArgs = <T = unknown>(
  operationId: string,
  stepId: string,
  sourceIndex: number,
): Value<T> => value("pi.op.tool_args", `${operationId}:${stepId}:${sourceIndex}`);
export const operationToolMemo = <T = unknown>(
  operationId: string,
  invocationId: string,
  name: string,
): Value<T> => value("pi.op.tool_memo", `${operationId}:${invocationId}:${name}`);
export const operationPreparation = <T = unknown>(operationId: string, taskId: string): Value<T> =>
  value("pi.op.preparation", `${operationId}:${taskId}`);
export const pendingToolOutput = <T = unknown>(operationId: string, invocationId: string): Value<T> =>
  value("pi.pending.tool_output", `${operationId}:${invocationId}`);
export const pendingAssistantFrames = <T = unknown>(
  operationId: string,
  responseEntryId: string,
): ValueList<T> => list("pi.pending.assistant_frame", `${operationId}:${responseEntryId}`);
