import { PiSessionError } from "../contract/errors.ts";

/**
 * No connection to the server: nothing answers at its address, it refuses the user, the password or the database, it
 * has no connection left, or the pool had none free in time. Nothing was sent.
 */
export class DatabaseUnreachableError extends PiSessionError {
  readonly code = "database_unreachable";

  constructor(reason: string, options: { cause?: unknown; remedy?: string } = {}) {
    const { cause, remedy = "check that the server runs and that the connection string names it" } = options;
    super(`The database cannot be reached: ${reason}: ${remedy}.`, { cause });
  }
}

/** The connection broke while a statement ran. Nothing was committed; call again. */
export class DatabaseConnectionLostError extends PiSessionError {
  readonly code = "database_connection_lost";

  constructor(options?: { cause?: unknown }) {
    super(
      "The connection to the database broke during the call, and nothing was committed: call again.",
      options,
    );
  }
}

/**
 * The connection broke while a commit was being confirmed, and it cannot be found out whether it happened. Read
 * before you write again.
 */
export class CommitOutcomeUnknownError extends PiSessionError {
  readonly code = "commit_outcome_unknown";

  constructor(options?: { cause?: unknown }) {
    super(
      "The connection to the database broke while the commit was being confirmed, so it may or may not have happened: read the session before you commit again.",
      options,
    );
  }
}

/**
 * With `preparedStatements: true`: a connection pooler lost, or mixed up, a prepared statement. Nothing was written.
 */
export class PreparedStatementLostError extends PiSessionError {
  readonly code = "prepared_statement_lost";

  constructor(options?: { cause?: unknown }) {
    super(
      "A prepared statement was lost, as happens behind a connection pooler that does not keep them, and nothing was written: open the database with `preparedStatements` auto or false, or set `max_prepared_statements` of PgBouncer 1.21 or newer.",
      options,
    );
  }
}

/** The tables are missing or older than this release. */
export class DatabaseNotMigratedError extends PiSessionError {
  readonly code = "database_not_migrated";
  /** Name of the schema. */
  readonly schema: string;

  constructor(schema: string, options?: { cause?: unknown }) {
    super(
      `The schema "${schema}" is not migrated to this version: call \`db.migrate()\` or run \`pi-sessions migrate\`.`,
      options,
    );
    this.schema = schema;
  }
}

/** A newer release has migrated the schema. */
export class DatabaseTooNewError extends PiSessionError {
  readonly code = "database_too_new";
  /** Name of the schema. */
  readonly schema: string;
  /** Names of the migrations that this release does not know. */
  readonly migrations: readonly string[];

  constructor(schema: string, migrations: readonly string[]) {
    super(
      `The schema "${schema}" has migrations that this version does not know (${migrations.join(", ")}): upgrade pi-session-postgres.`,
    );
    this.schema = schema;
    this.migrations = migrations;
  }
}

/**
 * A migration waited too long for a lock: for 2 minutes on other migrations, or for 10 seconds on a table. Nothing
 * was changed.
 */
export class MigrationLockedError extends PiSessionError {
  readonly code = "migration_locked";

  constructor(schema: string, options?: { cause?: unknown }) {
    super(
      `The migration of schema "${schema}" waited too long for a lock and changed nothing: end the long transactions on its tables and run it again.`,
      options,
    );
  }
}

/** The role that is connected may not do this. Nothing was written. */
export class DatabasePermissionError extends PiSessionError {
  readonly code = "database_permission";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The database role may not do this (${problem}): connect with the role that owns the schema, or have its owner grant the rights.`,
      options,
    );
  }
}

/** The server is out of disk space or memory. Nothing was written. */
export class DatabaseFullError extends PiSessionError {
  readonly code = "database_full";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The database server is out of room (${problem}), and nothing was written: make room and call again.`,
      options,
    );
  }
}

/** The server refuses data of this size or depth. Nothing was written. */
export class DatabaseLimitError extends PiSessionError {
  readonly code = "database_limit";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The data exceeds a limit of the database server (${problem}), and nothing was written: make it smaller or less deeply nested.`,
      options,
    );
  }
}

/** A report's sum of tokens or calls is larger than a JavaScript number can say exactly. */
export class UsageOverflowError extends PiSessionError {
  readonly code = "usage_overflow";
  /** What was summed, for example `input`. */
  readonly field: string;
  /** The exact sum, as the text of a whole number. */
  readonly sum: string;

  constructor(field: string, sum: string) {
    super(
      `The sum of \`${field}\` in the report is ${sum}, beyond the safe integers of JavaScript: ask for less time or more groups, or sum in SQL.`,
    );
    this.field = field;
    this.sum = sum;
  }
}

/** The server is older than PostgreSQL 15. */
export class UnsupportedServerError extends PiSessionError {
  readonly code = "unsupported_server";

  constructor(version: string) {
    super(`The server runs PostgreSQL ${version}: use PostgreSQL 15 or newer.`);
  }
}

/**
 * The schema's name has other characters than letters, digits and underscores, begins with a digit, is longer than 63
 * characters, or is reserved (`pg_…`, `public`, `information_schema`).
 */
export class InvalidSchemaNameError extends PiSessionError {
  readonly code = "invalid_schema_name";

  constructor(problem: string) {
    super(
      `The schema name ${problem}: use up to 63 letters, digits and underscores, not starting with a digit or "pg_", and not "public".`,
    );
  }
}

/** There is no tenant with this slug, or no longer. */
export class TenantNotFoundError extends PiSessionError {
  readonly code = "tenant_not_found";
  /** The slug that was asked for. */
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `There is no tenant ${JSON.stringify(tenant)}: create it with \`pi-sessions tenant create\` or \`db.tenants.create\`.`,
    );
    this.tenant = tenant;
  }
}

/** A tenant with this slug exists already. */
export class TenantExistsError extends PiSessionError {
  readonly code = "tenant_exists";
  /** The slug that is taken. */
  readonly tenant: string;

  constructor(tenant: string) {
    super(`The tenant ${JSON.stringify(tenant)} already exists: use it, or choose another slug.`);
    this.tenant = tenant;
  }
}

/** A deletion of the tenant was begun: it runs, or was interrupted and has to be finished. */
export class TenantBeingDeletedError extends PiSessionError {
  readonly code = "tenant_being_deleted";
  /** Slug of the tenant. */
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `The tenant ${JSON.stringify(tenant)} is being deleted: finish that with \`pi-sessions tenant delete\` or \`db.tenants.delete\`.`,
    );
    this.tenant = tenant;
  }
}

/** A role that was named to `migrate` does not exist, and the role that is connected may not create it. */
export class RoleNotFoundError extends PiSessionError {
  readonly code = "role_not_found";
  /** The name that was asked for. */
  readonly role: string;

  constructor(role: string) {
    super(
      `There is no role ${JSON.stringify(role)}, and this one may not create it: have an administrator run CREATE ROLE, then migrate again.`,
    );
    this.role = role;
  }
}

/**
 * The server cancelled the operation, because it took longer than `statementMs` or waited for a lock longer than
 * `lockMs`, or because an administrator cancelled it. Nothing was written.
 */
export class OperationTimeoutError extends PiSessionError {
  readonly code = "operation_timeout";

  constructor(reason: string, options?: { cause?: unknown }) {
    super(
      `The server gave the operation up (${reason}), and nothing was written: call again, or allow it more time.`,
      options,
    );
  }
}

/** A cursor is damaged, or belongs to a page with other options. */
export class InvalidCursorError extends PiSessionError {
  readonly code = "invalid_cursor";

  constructor(problem: string) {
    super(
      `The cursor ${problem}: pass the one that was returned last, with the same options, or start anew.`,
    );
  }
}

/** The tenant is suspended: it can be read, but not written. Nothing was written. */
export class TenantSuspendedError extends PiSessionError {
  readonly code = "tenant_suspended";
  /** Slug of the tenant. */
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `The tenant ${JSON.stringify(tenant)} is suspended and can only be read: resume it with \`pi-sessions tenant resume\` or \`db.tenants.resume\`.`,
    );
    this.tenant = tenant;
  }
}

/** A limit of a tenant: number of sessions, bytes stored by all of them, or bytes of one entry's payload. */
export type TenantLimit = "sessions" | "storedBytes" | "entryBytes";

const LIMITED = {
  sessions: "sessions",
  storedBytes: "bytes in its sessions",
  entryBytes: "bytes in an entry",
} as const;

/** The call would take the tenant over one of its limits. Nothing was written. */
export class TenantLimitError extends PiSessionError {
  readonly code = "tenant_limit";
  /** Slug of the tenant. */
  readonly tenant: string;
  /** The limit that would be exceeded. */
  readonly limit: TenantLimit;
  /** Its value: a number of sessions, or of bytes. */
  readonly maximum: number;

  constructor(tenant: string, limit: TenantLimit, maximum: number) {
    super(
      `The tenant ${JSON.stringify(tenant)} may have at most ${maximum} ${LIMITED[limit]}, and nothing was written: delete something or raise the limit with \`db.tenants.setLimits\`.`,
    );
    this.tenant = tenant;
    this.limit = limit;
    this.maximum = maximum;
  }
}

/**
 * The tenant has spent a hard budget, so it can record what it spends, but add no entry without usage. Nothing was
 * written.
 */
export class BudgetExceededError extends PiSessionError {
  readonly code = "budget_exceeded";
  /** Slug of the tenant. */
  readonly tenant: string;
  /** When the budget begins anew, in milliseconds since the epoch. */
  readonly until: number;

  constructor(tenant: string, until: number) {
    super(
      `The tenant ${JSON.stringify(tenant)} has spent its budget, and nothing was written: wait until ${new Date(until).toISOString()}, or raise the budget with \`db.usage.budget.set\`.`,
    );
    this.tenant = tenant;
    this.until = until;
  }
}

/** The repository or the database object was closed. Nothing was sent. */
export class DatabaseClosedError extends PiSessionError {
  readonly code = "database_closed";

  constructor(what: "database" | "repository") {
    super(`The ${what} is closed: open it again.`);
  }
}

/** The database holds something that this package never writes, such as an integer beyond 2^53. */
export class StoredDataError extends PiSessionError {
  readonly code = "stored_data";

  constructor(problem: string) {
    super(`The database holds ${problem}, which this package never writes: restore the row from a backup.`);
  }
}

/** The session was not imported from a file, or by a release that kept no journal, so there is no original to export. */
export class NoArchiveError extends PiSessionError {
  readonly code = "no_archive";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} has no original file: export it in another format, v3 or v4.`,
    );
    this.sessionId = sessionId;
  }
}
