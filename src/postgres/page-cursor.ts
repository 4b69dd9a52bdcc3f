import { createHash } from "node:crypto";
import { InvalidCursorError } from "./errors.ts";

/** Where a page ended: the values that its last session is sorted by, the id last. */
export type PageKey = readonly (string | number)[];

/**
 * A text that a caller hands back for the next page. It is tied to the question, so that it cannot go on with another
 * one; nothing in it is trusted.
 */
export function cursorOf(question: object, key: PageKey): string {
  return Buffer.from(JSON.stringify([digestOf(question), ...key])).toString("base64url");
}

/**
 * @param form an example of the key's values, for their types
 * @throws InvalidCursorError
 */
export function readCursor(question: object, cursor: string, form: PageKey): PageKey {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    throw new InvalidCursorError("is not one that was returned");
  }
  if (!Array.isArray(parts) || parts.length !== form.length + 1) {
    throw new InvalidCursorError("is not one that was returned");
  }
  const [digest, ...key] = parts as unknown[];
  if (digest !== digestOf(question)) {
    throw new InvalidCursorError("belongs to other filters, another order or another tenant");
  }
  if (!key.every((value, index) => isLike(value, form[index]))) {
    throw new InvalidCursorError("is not one that was returned");
  }
  return key as (string | number)[];
}

function isLike(value: unknown, example: unknown): boolean {
  if (typeof example === "number") return Number.isSafeInteger(value);
  return typeof value === "string" && !value.includes("\0") && value.isWellFormed();
}

function digestOf(question: object): string {
  return createHash("sha256").update(JSON.stringify(question)).digest("base64url").slice(0, 16);
}
