/** What `JSON.parse` gives for `{…}`. */
export type JsonObject = Record<string, unknown>;

export function isJsonObject(json: unknown): json is JsonObject {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

export function isSafeInteger(json: unknown, minimum: number): json is number {
  return Number.isSafeInteger(json) && (json as number) >= minimum;
}
