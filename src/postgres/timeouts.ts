import { type Context, createContextKey, withContextValue } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";

/** How long an operation may take, in whole milliseconds up to 2,147,483,647. */
export interface Timeouts {
  /**
   * How long one statement may run in the server, at least 1; then the call rejects with OperationTimeoutError and
   * nothing is written. Default: the server's own setting.
   */
  statementMs?: number;
  /**
   * How long a statement may wait for a lock in the server, at least 1; then the call rejects with
   * OperationTimeoutError and nothing is written. Default: the server's own setting.
   */
  lockMs?: number;
  /** How long to try again while the server restarts or fails over; 0 fails at once. Default 10,000. */
  reconnectMs?: number;
}

const KEY = createContextKey<Timeouts>("timeouts");

/**
 * Derives a context whose operations have these timeouts instead of the database's. Those that are left out stay as
 * they are in `parent`.
 *
 * @throws InvalidOptionError
 * @example
 * await session.findEntries(undefined, withTimeouts({ statementMs: 500 }, context));
 */
export function withTimeouts(timeouts: Timeouts, parent: Context): Context {
  assertTimeouts(timeouts);
  return withContextValue(KEY, { ...parent.value(KEY), ...timeouts }, parent);
}

/** Those of the context, else those of the database. */
export function timeoutsOf(
  context: Context,
  defaults: Timeouts,
): Required<Pick<Timeouts, "reconnectMs">> & Timeouts {
  return { reconnectMs: 10_000, ...defaults, ...context.value(KEY) };
}

/** Those that the server watches, as statements for the start of a transaction. */
export function timeoutSettings({ statementMs, lockMs }: Timeouts): string[] {
  return [
    ...(statementMs === undefined ? [] : [`set local statement_timeout = ${statementMs}`]),
    ...(lockMs === undefined ? [] : [`set local lock_timeout = ${lockMs}`]),
  ];
}

/** @throws InvalidOptionError */
export function assertTimeouts(timeouts: Timeouts): void {
  for (const [option, milliseconds] of Object.entries(timeouts)) {
    if (!["statementMs", "lockMs", "reconnectMs"].includes(option)) {
      throw new InvalidOptionError(
        `timeouts.${option}`,
        milliseconds,
        "pass statementMs, lockMs or reconnectMs",
      );
    }
    const minimum = option === "reconnectMs" ? 0 : 1;
    // The server's settings are 32-bit integers.
    if (!Number.isInteger(milliseconds) || milliseconds < minimum || milliseconds > 2 ** 31 - 1) {
      throw new InvalidOptionError(
        `timeouts.${option}`,
        milliseconds,
        `pass whole milliseconds from ${minimum} to 2147483647`,
      );
    }
  }
}
