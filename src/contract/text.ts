import { InvalidTextError } from "./errors.ts";

/** Longest texts in UTF-8 bytes, chosen so that every primary key fits into an index row of PostgreSQL (2,704 bytes). */
export const TEXT_LIMITS = {
  sessionId: 256,
  /** Entries and usage rows. A label's key is an entry id, so it must fit there too. */
  id: 512,
  namespace: 256,
  key: 1024,
  customType: 512,
  tenantSlug: 128,
  tenantName: 1024,
  cwd: 4096,
  path: 4096,
} as const;

/**
 * Identifiers are `text` columns, which can hold neither NUL nor a lone UTF-16 surrogate.
 * What must not be altered is refused here, before anything is sent.
 *
 * @throws InvalidTextError
 */
export function assertText(what: string, text: string, limits: { maxBytes: number; empty: boolean }): void {
  if (typeof text !== "string") throw new InvalidTextError(what, "is not a string", "pass a string");
  if (text.includes("\0")) throw new InvalidTextError(what, "contains a NUL character", "remove it");
  if (!text.isWellFormed()) throw new InvalidTextError(what, "contains a lone UTF-16 surrogate", "remove it");
  if (!limits.empty && text.length === 0)
    throw new InvalidTextError(what, "is empty", "pass at least one character");
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.maxBytes) {
    throw new InvalidTextError(
      what,
      `is ${bytes} bytes long`,
      `shorten it to ${limits.maxBytes} bytes of UTF-8`,
    );
  }
}

/** @throws InvalidTextError */
export function assertEntryId(what: string, id: string): void {
  assertText(what, id, { maxBytes: TEXT_LIMITS.id, empty: true });
}

/** @throws InvalidTextError */
export function assertCustomType(customType: string): void {
  assertText("custom type", customType, { maxBytes: TEXT_LIMITS.customType, empty: true });
}

/** @throws InvalidTextError */
export function assertSessionId(what: string, id: string): void {
  assertText(what, id, { maxBytes: TEXT_LIMITS.sessionId, empty: false });
}

/** Whether a `text` column can hold this. */
export function isStorable(text: unknown): text is string {
  return typeof text === "string" && !text.includes("\0") && text.isWellFormed();
}

/** The nearest text that a `text` column can hold: U+FFFD stands for a NUL or a lone surrogate. */
export function storableText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}
