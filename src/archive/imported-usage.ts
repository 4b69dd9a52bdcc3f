import {
  COST_FIELDS,
  emptyUsage,
  OPTIONAL_TOKEN_FIELDS,
  TOKEN_FIELDS,
  type Usage,
} from "../contract/usage.ts";
import { LineFault } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/**
 * A `usage` object of an archive with all fields that the ledger sums. Old ones lack `totalTokens`: the sum of
 * its four parts stands in. So it does for `null`, which is how JSON writes the NaN that pi makes of such usage.
 * Other missing fields count as 0.
 *
 * @returns undefined where there is no usage
 * @throws LineFault
 */
export function importedUsage(json: unknown): Usage | undefined {
  if (json === undefined || json === null) return undefined;
  if (!isJsonObject(json)) throw invalidUsage("usage");
  const usage = { ...json, ...emptyUsage() };
  for (const field of TOKEN_FIELDS) usage[field] = numberOf(json, field);
  if (json["totalTokens"] === undefined || json["totalTokens"] === null) {
    usage.totalTokens = usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
  }
  for (const field of OPTIONAL_TOKEN_FIELDS) {
    if (json[field] !== undefined) usage[field] = numberOf(json, field);
  }
  const cost = json["cost"] ?? {};
  if (!isJsonObject(cost)) throw invalidUsage("cost");
  usage.cost = { ...cost, ...usage.cost };
  for (const field of COST_FIELDS) usage.cost[field] = numberOf(cost, field);
  return usage;
}

/** Whether a sum changes when this is added to it, apart from the fields that it then has. */
export function isZeroUsage(usage: Usage): boolean {
  return (
    TOKEN_FIELDS.every((field) => usage[field] === 0) &&
    OPTIONAL_TOKEN_FIELDS.every((field) => (usage[field] ?? 0) === 0) &&
    COST_FIELDS.every((field) => usage.cost[field] === 0)
  );
}

function numberOf(json: JsonObject, field: string): number {
  const number = json[field] ?? 0;
  if (typeof number !== "number") throw invalidUsage(field);
  return number;
}

function invalidUsage(field: string): LineFault {
  return new LineFault("invalid_usage", `the field \`${field}\` of its usage is not a number`);
}
