import type { EmbeddedServerErrorCode } from "../embedded/errors.ts";
import type * as errors from "../postgres/errors.ts";

/** What a command's exit code says. */
export const EXIT = {
  done: 0,
  /** Done with findings, or refused. */
  foundFailures: 1,
  usage: 2,
  /** The database cannot be used. */
  database: 3,
} as const;

export const EXIT_HELP = `
Exit codes:
  0    done
  1    done with findings, or refused: a broken file, a failed check, an unknown id or tenant, a limit
  2    the command line is wrong
  3    the database cannot be used
  130  ended by Ctrl-C; 143 by kill`;

type ErrorClass = (typeof errors)[keyof typeof errors];
type DatabaseCode =
  | EmbeddedServerErrorCode
  | Extract<
      InstanceType<ErrorClass>["code"],
      `database_${string}` | "unsupported_server" | "migration_locked"
    >;

const DATABASE = {
  database_closed: EXIT.database,
  database_connection_lost: EXIT.database,
  database_full: EXIT.database,
  database_limit: EXIT.database,
  database_not_migrated: EXIT.database,
  database_permission: EXIT.database,
  database_too_new: EXIT.database,
  database_unreachable: EXIT.database,
  migration_locked: EXIT.database,
  server_data_dir: EXIT.database,
  server_init: EXIT.database,
  server_not_installed: EXIT.database,
  server_platform: EXIT.database,
  server_start: EXIT.database,
  server_user: EXIT.database,
  server_version: EXIT.database,
  unsupported_server: EXIT.database,
} satisfies Record<DatabaseCode, number>;

/** Every other error says that this one thing was refused. */
const EXIT_CODES = new Map<string, number>(
  Object.entries({
    ...DATABASE,
    invalid_cursor: EXIT.usage,
    invalid_option: EXIT.usage,
    invalid_schema_name: EXIT.usage,
    invalid_text: EXIT.usage,
    role_not_found: EXIT.usage,
  }),
);

/** The exit code that an error's `code` means. */
export function exitCodeOf(code: string): number {
  return EXIT_CODES.get(code) ?? EXIT.foundFailures;
}
