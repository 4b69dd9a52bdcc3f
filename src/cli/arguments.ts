import { InvalidArgumentError } from "commander";

/** @throws InvalidArgumentError */
export function wholeNumber(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count)) {
    throw new InvalidArgumentError("Pass a whole number, 0 or more.");
  }
  return count;
}

/** @throws InvalidArgumentError */
export function jsonObject(text: string): Record<string, never> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Record<string, never>;
  } catch {
    // Said below.
  }
  throw new InvalidArgumentError("Pass a JSON object.");
}

const DATE = /^\d{4}(-\d\d(-\d\d)?)?$/;
const DATE_AND_TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?$/;

/**
 * A time as it may be typed: an ISO date, with a time of day or without, in UTC unless it says otherwise; or
 * milliseconds since the epoch, in more than four digits.
 *
 * @returns milliseconds since the epoch
 * @throws InvalidArgumentError
 */
export function time(text: string): number {
  if (/^\d{5,}$/.test(text)) return wholeNumber(text);
  const [, date, timeOfDay, zone = "Z"] = DATE_AND_TIME.exec(text) ?? [];
  const milliseconds = Date.parse(DATE.test(text) ? text : `${date}T${timeOfDay}${zone}`);
  if (Number.isNaN(milliseconds) || !isDay(date ?? text)) {
    throw new InvalidArgumentError(
      "Pass a date such as 2026-03-01 or 2026-03-01T09:30Z, or milliseconds since the epoch.",
    );
  }
  return milliseconds;
}

/** JavaScript takes February 30 for March 2. */
function isDay(date: string): boolean {
  return new Date(date).toISOString().startsWith(date);
}

/** @throws InvalidArgumentError */
export function assertConfirmed(what: string, confirm: string): void {
  if (confirm !== what) {
    throw new InvalidArgumentError(
      `--confirm ${JSON.stringify(confirm)} is not ${JSON.stringify(what)}: repeat exactly what is to be deleted.`,
    );
  }
}
