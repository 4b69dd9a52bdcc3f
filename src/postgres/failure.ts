import { CommitContentionError, PiSessionError } from "../contract/errors.ts";
import {
  DatabaseConnectionLostError,
  DatabaseFullError,
  DatabaseLimitError,
  DatabaseNotMigratedError,
  DatabasePermissionError,
  DatabaseUnreachableError,
  OperationTimeoutError,
  PreparedStatementLostError,
  TenantBeingDeletedError,
  type TenantLimit,
  TenantLimitError,
  TenantNotFoundError,
  TenantSuspendedError,
} from "./errors.ts";

/** Serialization failure and deadlock: the transaction is gone, and the same one may well succeed. */
export function isRetryable(error: unknown): boolean {
  const code = codeOf(error);
  return code === "40001" || code === "40P01";
}

/** A prepared statement is not, or already, on the connection that a pooler chose for us. */
export function isStatementLost(error: unknown): boolean {
  const code = codeOf(error);
  return code === "26000" || code === "42P05";
}

/** Names that we, or PgBouncer for us, gave to statements. */
const STATEMENT_NAME = /\b(pi_[0-9a-f]{24}|PGBOUNCER_\d+)\b/;

/** The server is going down, down, or coming up, or the connection to it broke: it may be back in a moment. */
export function isServerAway(error: unknown): boolean {
  if (error instanceof DatabaseUnreachableError) return isServerAway(error.cause);
  const code = codeOf(error);
  return isConnectionLoss(error) || code === "57P03" || code === "ECONNREFUSED" || code === "ENOENT";
}

/** It says nothing of an earlier attempt whose answer got lost. */
export function leavesOpen(error: unknown): boolean {
  return (
    error instanceof DatabaseConnectionLostError ||
    error instanceof DatabaseUnreachableError ||
    error instanceof DatabaseFullError ||
    error instanceof OperationTimeoutError ||
    error instanceof CommitContentionError
  );
}

/** The role may not do this. */
export function isRefused(error: unknown): boolean {
  return codeOf(error) === "42501";
}

/** Of a statement in which nothing else can have such a value. */
export function isUnknownTimeZone(error: unknown): boolean {
  return codeOf(error) === "22023";
}

/** A time before 4714 BC, or far in the future. */
export function isTimeOutOfRange(error: unknown): boolean {
  return codeOf(error) === "22008";
}

export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === "55P03";
}

/** The server itself said no. Anything else leaves open what it did last. */
export function isAnswer(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && /^[0-9A-Z]{5}$/.test(code) && !isConnectionLoss(error);
}

export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== undefined) return /^(08|57P0[1245])/.test(code) || BROKEN_SOCKET.has(code);
  return (
    error instanceof Error && /connection (was )?(terminated|closed|ended)|not queryable/i.test(error.message)
  );
}

/**
 * PgBouncer reports every refused connection with class 08, which a server uses for protocol violations; while
 * connecting it means that the database is unreachable.
 */
export function connectFailure(error: unknown): unknown {
  if (!codeOf(error)?.startsWith("08")) return error;
  return new DatabaseUnreachableError(reasonOf(error), { cause: error });
}

/**
 * Turns what the driver and the server report into errors that say what to do. The original stays
 * as the cause; its detail is not repeated, since it may hold values.
 */
export function typedFailure(error: unknown, { schema, tenant }: FailedOn): unknown {
  if (error instanceof PiSessionError) return error;
  const code = codeOf(error);
  const options = { cause: error };
  if (code === undefined) return connectionFailure(error);
  if (code === "42P01" || code === "3F000" || code === "42703")
    return new DatabaseNotMigratedError(schema, options);
  if (/^PS00[1234]$/.test(code)) return tenantFailure(error, code, tenant?.slug ?? "");
  if (code === "57014" || code === "55P03") return new OperationTimeoutError(reasonOf(error), options);
  if (isStatementLost(error) && STATEMENT_NAME.test(reasonOf(error))) {
    return new PreparedStatementLostError(options);
  }
  if (code === "42501") return new DatabasePermissionError(reasonOf(error), options);
  if (code.startsWith("54")) return new DatabaseLimitError(reasonOf(error), options);
  const remedy = remedyOf(code);
  if (remedy !== undefined) return new DatabaseUnreachableError(reasonOf(error), { ...options, remedy });
  if (code.startsWith("53")) return new DatabaseFullError(reasonOf(error), options);
  if (isRetryable(error)) return new CommitContentionError(1, options);
  if (code === "57P03" || isUnanswered(error, code)) {
    return new DatabaseUnreachableError(reasonOf(error), options);
  }
  if (isConnectionLoss(error)) return new DatabaseConnectionLostError(options);
  return error;
}

/** For a server that answers and does not let us in. */
function remedyOf(code: string): string | undefined {
  if (code.startsWith("28")) return "check the user and the password";
  if (code === "3D000") return "create the database, or correct its name in the connection string";
  if (code === "53300")
    return "raise the server's `max_connections`, or have programs open fewer connections";
  return undefined;
}

/** What the failed statement was about. */
interface FailedOn {
  readonly schema: string;
  readonly tenant?: { readonly slug: string };
}

/** Raised by the functions of sql/0002_tenants.sql. */
function tenantFailure(error: unknown, code: string, slug: string): unknown {
  if (code === "PS001") return new TenantSuspendedError(slug);
  if (code === "PS003") return new TenantNotFoundError(slug);
  if (code === "PS004") return new TenantBeingDeletedError(slug);
  const [limit, maximum] = String((error as { detail?: unknown }).detail).split(" ");
  return new TenantLimitError(slug, limit as TenantLimit, Number(maximum));
}

/** Raised by `refuse_fork` of sql/0006_forks.sql. */
export function isRefusedFork(error: unknown): boolean {
  return codeOf(error) === "PS010";
}

export function detailOf(error: unknown): string {
  return String((error as { detail?: unknown }).detail);
}

/** A row with the same primary key is there already. */
export function isTaken(error: unknown, table: string): boolean {
  return codeOf(error) === "23505" && (error as { constraint?: unknown }).constraint === `${table}_pkey`;
}

const UNREACHABLE: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
]);

/** A socket in the file system fails to connect with the codes of files. */
function isUnanswered(error: unknown, code: string): boolean {
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return UNREACHABLE.has(code) || (first as { syscall?: unknown } | null)?.syscall === "connect";
}

const BROKEN_SOCKET: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);

/** The driver reports time-outs and closed sockets without a code. */
function connectionFailure(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (/timeout exceeded when trying to connect|connection timeout|sasl|ssl connection/i.test(error.message)) {
    if (!/when trying to connect/.test(error.message)) {
      return new DatabaseUnreachableError(error.message, { cause: error });
    }
    return new DatabaseUnreachableError("no connection was answered, or became free, in time", {
      cause: error,
      remedy: "check that the server runs, raise the pool's `max`, or look for calls that keep a connection",
    });
  }
  return isConnectionLoss(error) ? new DatabaseConnectionLostError({ cause: error }) : error;
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string") return code;
  // Connecting to a name with several addresses fails with one error for each of them.
  return error instanceof AggregateError ? codeOf(error.errors[0]) : undefined;
}

function reasonOf(error: unknown): string {
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message : String(first);
}
