import { createHash } from "node:crypto";
import { InvalidOptionError } from "../contract/errors.ts";
import type { ReadonlyJsonObject, ReadonlyJsonValue } from "../contract/json.ts";
import { isStorable } from "../contract/text.ts";

/** UTF-8 bytes of the JSON. */
const MAX_BYTES = 16 * 1024;
const MAX_DEPTH = 32;

/**
 * An application's own data of a session, by which it finds the session again. Kept as `jsonb`, so unlike messages
 * it holds no NUL and no lone surrogate.
 *
 * @returns its JSON
 * @throws InvalidOptionError
 */
export function metadataText(metadata: ReadonlyJsonObject): string {
  const refuse = (given: string, remedy: string) => new InvalidOptionError("metadata", given, remedy);
  if (!isObject(metadata)) throw refuse(metadata === null ? "null" : typeof metadata, "pass a JSON object");
  let text: string | undefined;
  try {
    text = JSON.stringify(metadata);
  } catch {
    throw refuse("the given object", "pass JSON data only");
  }
  if (text === undefined) throw refuse("the given object", "pass JSON data only");
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) throw refuse(`${bytes} bytes of JSON`, `shorten it to ${MAX_BYTES} bytes`);
  assertStorable(JSON.parse(text) as ReadonlyJsonValue, 0);
  return text;
}

function assertStorable(value: ReadonlyJsonValue, depth: number): void {
  if (depth > MAX_DEPTH) {
    throw new InvalidOptionError(
      "metadata",
      "nested that deeply",
      `nest it at most ${MAX_DEPTH} levels deep`,
    );
  }
  if (typeof value === "string" && !isStorable(value)) throw unstorable();
  if (!isContainer(value)) return;
  for (const [key, member] of Object.entries(value)) {
    if (!isStorable(key)) throw unstorable();
    assertStorable(member, depth + 1);
  }
}

function unstorable(): InvalidOptionError {
  return new InvalidOptionError(
    "metadata",
    "text with a NUL or half a surrogate pair",
    "remove those characters",
  );
}

/**
 * A number for each value in the metadata, together with the path to it. What contains other metadata has all of
 * its terms; places in a list do not matter. As decimal texts of 64-bit integers.
 */
export function termsOf(metadata: ReadonlyJsonObject): string[] {
  const terms = new Set<string>();
  const collect = (value: ReadonlyJsonValue, path: readonly string[]) => {
    if (!isContainer(value)) terms.add(hash(JSON.stringify([path, value])));
    else if (Array.isArray(value)) for (const member of value) collect(member, [...path, "[]"]);
    else for (const [key, member] of Object.entries(value)) collect(member, [...path, `.${key}`]);
  };
  collect(JSON.parse(metadataText(metadata)) as ReadonlyJsonObject, []);
  return [...terms];
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest().readBigInt64BE().toString();
}

function isContainer(value: ReadonlyJsonValue): value is readonly ReadonlyJsonValue[] | ReadonlyJsonObject {
  return typeof value === "object" && value !== null;
}

function isObject(value: unknown): value is ReadonlyJsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
