import { InvalidOptionError, type PiSessionError } from "../contract/errors.ts";

/**
 * What somebody at the command line does, for errors whose text advises programs. By the code of the error; it stands
 * in place of what the message ends in, behind its last colon.
 */
const REMEDIES: Readonly<Record<string, string>> = {
  branch_not_found: "take one of those that `pi-sessions show` puts in brackets",
  commit_contention: "run the command again",
  commit_outcome_unknown: "look at what is stored before you run the command again",
  database_connection_lost: "run the command again",
  database_full: "make room and run the command again",
  database_not_migrated: "run `pi-sessions migrate`",
  file_exists: "move it, or pass --force to replace it",
  invalid_cursor:
    "pass what the page before ended with, together with the same options, or leave out --cursor to start anew",
  operation_timeout:
    "run the command again, or have `statement_timeout` and `lock_timeout` of the role raised",
  session_exists: "delete it with `pi-sessions delete`, or import into another --tenant",
  session_not_found: "`pi-sessions list` shows the ids",
  tenant_being_deleted: "finish that with `pi-sessions tenant delete`",
  tenant_limit:
    "delete something with `pi-sessions delete`, or raise the limit with `pi-sessions tenant limit`",
  tenant_not_found:
    "`pi-sessions tenant list` shows those that exist, and `pi-sessions tenant create` adds one",
  tenant_suspended: "make it writable again with `pi-sessions tenant resume`",
};

/** What this program calls the options of the library. */
const OPTIONS: Readonly<Record<string, string>> = {
  amount: "--amount",
  by: "--by",
  column: "--chart",
  compare: "--compare",
  connectionString: "--database-url",
  cumulative: "--cumulative",
  dimensions: "[keys...]",
  exclude: "--exclude",
  from: "--from",
  include: "--include",
  metadata: "--metadata",
  "orderBy.column": "--order",
  role: "--application-role or --analyst-role",
  timeZone: "--tz",
  to: "--to",
  top: "--top",
};

/** The error as it is told at the command line. */
export function toldError(error: PiSessionError): string {
  if (error instanceof InvalidOptionError) {
    const [, filter] = /^where\.(.+)$/s.exec(error.option) ?? [];
    const option = filter === undefined ? OPTIONS[error.option] : `--where ${filter}`;
    if (option === undefined) return error.message;
    return withOptions(error.message.replace(`\`${error.option}\``, () => option));
  }
  return toldReason(error.code, error.message);
}

/** What it says to do may name other options. */
function withOptions(message: string): string {
  const advice = message.lastIndexOf(": ");
  const named = message.slice(advice).replaceAll(/`(\w+)`/g, (text, name: string) => OPTIONS[name] ?? text);
  return message.slice(0, advice) + named;
}

/** A text that says why something was refused and what to do, of which the code alone is known. */
export function toldReason(code: string, text: string): string {
  const remedy = REMEDIES[code];
  const end = text.lastIndexOf(": ");
  if (remedy === undefined || end === -1) return text;
  return `${text.slice(0, end)}: ${remedy}${text.endsWith(".") ? "." : ""}`;
}
