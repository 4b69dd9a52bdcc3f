import { InvalidUsageError } from "./errors.ts";

/**
 * What one or more model calls consumed. Tokens are safe integers, costs are in US dollars.
 * `cacheWrite1h` is part of `cacheWrite`, `reasoning` is part of `output`: neither adds to a total.
 */
export interface Usage {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  cacheWrite1h?: number;
  reasoning?: number;
  totalTokens: number;
  cost: UsageCost;
}

/** US dollars. */
export interface UsageCost {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  total: number;
}

/** Totals of a session: every `message` entry on any branch, and the sum of its ledger. */
export interface SessionStats {
  messageCount: number;
  usage: Usage;
}

export const TOKEN_FIELDS = ["input", "output", "cacheRead", "cacheWrite", "totalTokens"] as const;
export const OPTIONAL_TOKEN_FIELDS = ["cacheWrite1h", "reasoning"] as const;
export const COST_FIELDS = ["input", "output", "cacheRead", "cacheWrite", "total"] as const;

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
 * Adds field by field as IEEE doubles, so a total depends on the order of its rows: add in ledger order.
 * An optional field is present in the sum if either side has it.
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
 * @throws InvalidUsageError when tokens are no safe integers or costs are not finite.
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
