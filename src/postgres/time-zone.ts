import { InvalidOptionError } from "../contract/errors.ts";

/**
 * PostgreSQL also takes abbreviations and offsets, some of them with the opposite sign of ISO 8601, so only names of the
 * IANA database are passed on.
 *
 * @throws InvalidOptionError
 */
export function assertTimeZone(timeZone: unknown): void {
  if (typeof timeZone === "string" && /^[A-Za-z]/.test(timeZone) && isKnown(timeZone)) return;
  throw new InvalidOptionError(
    "timeZone",
    JSON.stringify(timeZone),
    "pass a name of the IANA time zone database, for example Europe/Berlin",
  );
}

function isKnown(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
    return true;
  } catch {
    return false;
  }
}
