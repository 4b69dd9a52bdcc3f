import { InvalidUsageError } from "./errors.ts";

/** What one or more model calls consumed. Token counts are safe integers; costs are finite numbers of US dollars. */
export interface Usage {
  /** Input tokens that were neither read from nor written to a cache. */
  input: number;
  /** Output tokens, those of `reasoning` included. */
  output: number;
  /** Input tokens that were read from a cache. */
  cacheRead: number;
  /** Input tokens that were written to a cache, those of `cacheWrite1h` included. */
  cacheWrite: number;
  /** The part of `cacheWrite` that is kept for an hour; absent where the provider does not tell. */
  cacheWrite1h?: number;
  /** The part of `output` that was spent on reasoning; absent where the provider does not tell. */
  reasoning?: number;
  /** As the provider counts them. Stored as given, not checked against the other fields. */
  totalTokens: number;
  /** What that cost, in US dollars. */
  cost: UsageCost;
}

/** Costs in US dollars, as finite numbers. */
export interface UsageCost {
  /** Of the tokens in `input`, in US dollars. */
  input: number;
  /** Of the tokens in `output`, in US dollars. */
  output: number;
  /** Of the tokens in `cacheRead`, in US dollars. */
  cacheRead: number;
  /** Of the tokens in `cacheWrite`, in US dollars. */
  cacheWrite: number;
  /** In US dollars. Stored as given, not checked against the other fields. */
  total: number;
}

/** Totals of a session. */
export interface SessionStats {
  /** Number of `message` entries on all branches. */
  messageCount: number;
  /** Sum of the usage ledger, added as {@link addUsage} does, in ledger order. */
  usage: Usage;
}

export const TOKEN_FIELDS = ["input", "output", "cacheRead", "cacheWrite", "totalTokens"] as const;
export const OPTIONAL_TOKEN_FIELDS = ["cacheWrite1h", "reasoning"] as const;
export const COST_FIELDS = ["input", "output", "cacheRead", "cacheWrite", "total"] as const;

/** A new usage of zero, without the optional fields. */
export function emptyUsage(): Usage {
  return {
    input: 0,
    output: 0,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 0,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  };
}

/**
 * The sum of two usages, as a new object; an optional field is present if either side has it. Fields are added as
 * IEEE doubles, so a total depends on the order of its rows: add in ledger order.
 */
export function addUsage(left: Usage, right: Usage): Usage {
  const sum = emptyUsage();
  for (const field of TOKEN_FIELDS) sum[field] = left[field] + right[field];
  for (const field of COST_FIELDS) sum.cost[field] = left.cost[field] + right.cost[field];
  for (const field of OPTIONAL_TOKEN_FIELDS) {
    if (left[field] !== undefined || right[field] !== undefined) {
      sum[field] = (left[field] ?? 0) + (right[field] ?? 0);
    }
  }
  return sum;
}

/**
 * The ledger sums money and tokens exactly, so it takes only what it can sum.
 *
 * @throws InvalidUsageError when a token count is not a safe integer or a cost is not finite.
 */
export function assertUsage(usageId: string, usage: Usage): void {
  if (typeof usage !== "object" || usage === null)
    throw new InvalidUsageError(usageId, "input", "a safe integer");
  for (const field of TOKEN_FIELDS) assertTokens(usageId, field, usage?.[field]);
  for (const field of OPTIONAL_TOKEN_FIELDS) {
    if (usage[field] !== undefined) assertTokens(usageId, field, usage[field]);
  }
  for (const field of COST_FIELDS) {
    const cost: unknown = usage.cost?.[field];
    if (typeof cost !== "number" || !Number.isFinite(cost)) {
      throw new InvalidUsageError(usageId, `cost.${field}`, "a finite number of US dollars");
    }
  }
}

function assertTokens(usageId: string, field: string, tokens: unknown): void {
  if (!Number.isSafeInteger(tokens)) throw new InvalidUsageError(usageId, field, "a safe integer");
}
