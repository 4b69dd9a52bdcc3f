import { InvalidOptionError } from "./errors.ts";
import type { LaneConfiguration, LaneState, OperationResult, PendingEntry } from "./lane.ts";
import { assertText, TEXT_LIMITS } from "./text.ts";

declare const storedType: unique symbol;

/**
 * Where a value or a list lives: a namespace and a key in it. Keys sort by Unicode code point. Make one with {@link
 * value} or {@link list}.
 */
export interface Address {
  /** 1 to 256 bytes of UTF-8. Namespaces that begin with `pi.` are reserved for pi's format 4. */
  readonly namespace: string;
  /** 0 to 1,024 bytes of UTF-8. */
  readonly key: string;
  /** Values and lists never mix: the same namespace and key names one of each. */
  readonly kind: "value" | "list";
}

/** Address of a current value of type `T`: set, overwritten, deleted; without history. */
export interface Value<T> extends Address {
  readonly kind: "value";
  readonly [storedType]?: (value: T) => T;
}

/** Address of an append-only list with elements of type `T`, deleted only whole. */
export interface ValueList<T> extends Address {
  readonly kind: "list";
  readonly [storedType]?: (value: T) => T;
}

/** A current value as it was read. */
export interface StoredValue<T> {
  /** Where it is. */
  address: Value<T>;
  /** A fresh copy of what was set, as JSON keeps it. That it is a `T` is not checked. */
  value: T;
  /** Position, in the session, of the write that set it. */
  seq: number;
}

/** One element of a list as it was read. */
export interface ListElement<T> {
  /** Position, in the session, of the write that appended it. */
  seq: number;
  /** A fresh copy of what was appended, as JSON keeps it. That it is a `T` is not checked. */
  value: T;
}

/** A place in a list; any {@link ListElement} is one. */
export interface ListCursor {
  /** Of the element that was read last. */
  seq: number;
}

/** Which elements of a list to read. */
export interface ListReadOptions {
  /**
   * Exclusive: reading goes on after (`asc`) or before (`desc`) this element. Default: from the beginning or the end.
   */
  cursor?: ListCursor;
  /** By `seq`: from the first element on (`asc`, the default) or from the last (`desc`). */
  order?: "asc" | "desc";
  /**
   * At most this many elements; default 1,000, clamped to 10,000. Anything but a positive safe integer is rejected
   * with InvalidOptionError.
   */
  limit?: number;
}

const DEFAULT_LIST_LIMIT = 1_000;
const MAX_LIST_LIMIT = 10_000;

/**
 * The address of a value. Leave the key out where a namespace holds a single value.
 *
 * @throws InvalidTextError when the namespace is empty, or either text holds a NUL or a lone surrogate or is too long
 * @example
 * const plan = value<{ steps: string[] }>("acme.plan", "current");
 */
export function value<T>(namespace: string, key = ""): Value<T> {
  assertAddress(namespace, key);
  return Object.freeze({ namespace, key, kind: "value" });
}

/**
 * The address of a list. Leave the key out where a namespace holds a single list.
 *
 * @throws InvalidTextError when the namespace is empty, or either text holds a NUL or a lone surrogate or is too long
 * @example
 * const events = list<{ at: number; what: string }>("acme.events");
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
 * @throws InvalidOptionError when the limit is not a positive safe integer.
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

/**
 * The tip of a branch: an entry id, or `null` while the branch is empty. The branch exists while this value does.
 * Written by appends and by programs that move the branch.
 *
 * @throws InvalidTextError
 */
export const branchTip = (branch: string): Value<string | null> => value("pi.branch.tip", branch);
/** Prefix of all branch tips, for `scanValues`; the key of each is the branch's name. */
export const branchTips = (): Value<string | null> => value("pi.branch.tip");
/**
 * Model, thinking level and active tools of a lane. Written by the agent harness, importers and forks.
 *
 * @throws InvalidTextError
 */
export const laneConfig = (lane: string): Value<LaneConfiguration> => value("pi.lane.config", lane);
/**
 * What a lane is doing and what waits for it. Written by the agent harness; forks and imports start it idle.
 *
 * @throws InvalidTextError
 */
export const laneState = (lane: string): Value<LaneState> => value("pi.lane.state", lane);
/** The name of the session, any string. Written by `session.setName`. */
export const sessionName: Value<string> = value("pi.session.name");
/**
 * The label of an entry, any string. Written by `session.setLabel`.
 *
 * @throws InvalidTextError
 */
export const entryLabel = (entryId: string): Value<string> => value("pi.entry.label", entryId);
/**
 * Content that was accepted and has no place in the tree yet, by the id that its entry will have. Written by the
 * agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const pendingEntry = (entryId: string): Value<PendingEntry> => value("pi.pending.entry", entryId);
/**
 * How an operation on a lane ended. Written by the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationResult = (operationId: string): Value<OperationResult> =>
  value("pi.result", operationId);

// What a running operation keeps is the harness's own business: this package stores it and never looks inside.
/**
 * What a running operation was started with. Written and typed by the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationMeta = <T = unknown>(operationId: string): Value<T> => value("pi.op.meta", operationId);
/**
 * How far a running operation has come. Written and typed by the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationState = <T = unknown>(operationId: string): Value<T> =>
  value("pi.op.state", operationId);
/**
 * Arguments of one tool call of a running operation; `sourceIndex` is the call's position within the step. Written
 * and typed by the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationToolArgs = <T = unknown>(
  operationId: string,
  stepId: string,
  sourceIndex: number,
): Value<T> => value("pi.op.tool_args", `${operationId}:${stepId}:${sourceIndex}`);
/**
 * A named result that a tool call keeps, so that a resumed operation need not compute it again. Written and typed by
 * the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationToolMemo = <T = unknown>(
  operationId: string,
  invocationId: string,
  name: string,
): Value<T> => value("pi.op.tool_memo", `${operationId}:${invocationId}:${name}`);
/**
 * What a compaction or a navigation has prepared before it changes the tree. Written and typed by the agent harness;
 * a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const operationPreparation = <T = unknown>(operationId: string, taskId: string): Value<T> =>
  value("pi.op.preparation", `${operationId}:${taskId}`);
/**
 * Output of a tool call whose entry is not committed yet. Written and typed by the agent harness; a fork leaves it
 * out.
 *
 * @throws InvalidTextError
 */
export const pendingToolOutput = <T = unknown>(operationId: string, invocationId: string): Value<T> =>
  value("pi.pending.tool_output", `${operationId}:${invocationId}`);
/**
 * List of the parts of an assistant message that is still streaming, by the id that its entry will have. Written and
 * typed by the agent harness; a fork leaves it out.
 *
 * @throws InvalidTextError
 */
export const pendingAssistantFrames = <T = unknown>(
  operationId: string,
  responseEntryId: string,
): ValueList<T> => list("pi.pending.assistant_frame", `${operationId}:${responseEntryId}`);
