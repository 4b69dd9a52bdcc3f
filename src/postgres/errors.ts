import { PiSessionError } from "../contract/errors.ts";

/** Nothing answers at the server's address, or it does not let us in. */
export class DatabaseUnreachableError extends PiSessionError {
  readonly code = "database_unreachable";

  constructor(reason: string, options: { cause?: unknown; remedy?: string } = {}) {
    const { cause, remedy = "check that the server runs and that the connection string names it" } = options;
    super(`The database cannot be reached: ${reason}: ${remedy}.`, { cause });
  }
}

/** The connection broke while a statement ran. */
export class DatabaseConnectionLostError extends PiSessionError {
  readonly code = "database_connection_lost";

  constructor(options?: { cause?: unknown }) {
    super(
      "The connection to the database broke during the call, and nothing was committed: call again.",
      options,
    );
  }
}

/** The connection broke while a commit was being confirmed. */
export class CommitOutcomeUnknownError extends PiSessionError {
  readonly code = "commit_outcome_unknown";

  constructor(options?: { cause?: unknown }) {
    super(
      "The connection to the database broke while the commit was being confirmed, so it may or may not have happened: read the session before you commit again.",
      options,
    );
  }
}

/** With `preparedStatements: true`: a statement was not where this connection had prepared it. Nothing was written. */
export class PreparedStatementLostError extends PiSessionError {
  readonly code = "prepared_statement_lost";

  constructor(options?: { cause?: unknown }) {
    super(
      "A prepared statement was lost, as happens behind a connection pooler that does not keep them, and nothing was written: open the database with `preparedStatements` auto or false, or set `max_prepared_statements` of PgBouncer 1.21 or newer.",
      options,
    );
  }
}

/** The tables are missing or older than this code. */
export class DatabaseNotMigratedError extends PiSessionError {
  readonly code = "database_not_migrated";
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
  readonly schema: string;
  readonly migrations: readonly string[];

  constructor(schema: string, migrations: readonly string[]) {
    super(
      `The schema "${schema}" has migrations that this version does not know (${migrations.join(", ")}): upgrade pi-session-postgres.`,
    );
    this.schema = schema;
    this.migrations = migrations;
  }
}

/** Another transaction held a lock that the migration needs for too long. */
export class MigrationLockedError extends PiSessionError {
  readonly code = "migration_locked";

  constructor(schema: string, options?: { cause?: unknown }) {
    super(
      `The migration of schema "${schema}" waited too long for a lock and changed nothing: end the long transactions on its tables and run it again.`,
      options,
    );
  }
}

export class DatabasePermissionError extends PiSessionError {
  readonly code = "database_permission";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The database role may not do this (${problem}): connect with the role that owns the schema, or have its owner grant the rights.`,
      options,
    );
  }
}

/** The server has no room left: disk, memory or connections. */
export class DatabaseFullError extends PiSessionError {
  readonly code = "database_full";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The database server is out of room (${problem}), and nothing was written: make room and call again.`,
      options,
    );
  }
}

/** The server refuses data of this size or depth. */
export class DatabaseLimitError extends PiSessionError {
  readonly code = "database_limit";

  constructor(problem: string, options?: { cause?: unknown }) {
    super(
      `The data exceeds a limit of the database server (${problem}), and nothing was written: make it smaller or less deeply nested.`,
      options,
    );
  }
}

export class UnsupportedServerError extends PiSessionError {
  readonly code = "unsupported_server";

  constructor(version: string) {
    super(`The server runs PostgreSQL ${version}: use PostgreSQL 15 or newer.`);
  }
}

export class InvalidSchemaNameError extends PiSessionError {
  readonly code = "invalid_schema_name";

  constructor(problem: string) {
    super(
      `The schema name ${problem}: use up to 63 letters, digits and underscores, not starting with a digit or "pg_", and not "public".`,
    );
  }
}

export class TenantNotFoundError extends PiSessionError {
  readonly code = "tenant_not_found";
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `There is no tenant ${JSON.stringify(tenant)}: create it with \`pi-sessions tenant create\` or \`db.tenants.create\`.`,
    );
    this.tenant = tenant;
  }
}

export class TenantExistsError extends PiSessionError {
  readonly code = "tenant_exists";
  readonly tenant: string;

  constructor(tenant: string) {
    super(`The tenant ${JSON.stringify(tenant)} already exists: use it, or choose another slug.`);
    this.tenant = tenant;
  }
}

/** Its deletion was begun and interrupted, or goes on. */
export class TenantBeingDeletedError extends PiSessionError {
  readonly code = "tenant_being_deleted";
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `The tenant ${JSON.stringify(tenant)} is being deleted: finish that with \`pi-sessions tenant delete\` or \`db.tenants.delete\`.`,
    );
    this.tenant = tenant;
  }
}

/** A role that was named to \`migrate\` does not exist. */
export class RoleNotFoundError extends PiSessionError {
  readonly code = "role_not_found";
  readonly role: string;

  constructor(role: string) {
    super(
      `There is no role ${JSON.stringify(role)}, and this one may not create it: have an administrator run CREATE ROLE, then migrate again.`,
    );
    this.role = role;
  }
}

/** The operation took longer than it may, in the server. Nothing was written. */
export class OperationTimeoutError extends PiSessionError {
  readonly code = "operation_timeout";

  constructor(reason: string, options?: { cause?: unknown }) {
    super(
      `The server gave the operation up (${reason}), and nothing was written: call again, or allow it more time.`,
      options,
    );
  }
}

/** A cursor does not fit the page that it was handed to. */
export class InvalidCursorError extends PiSessionError {
  readonly code = "invalid_cursor";

  constructor(problem: string) {
    super(`The cursor ${problem}: pass \`next\` of the page before, with the same options, or start anew.`);
  }
}

/** A suspended tenant can be read, and not written. */
export class TenantSuspendedError extends PiSessionError {
  readonly code = "tenant_suspended";
  readonly tenant: string;

  constructor(tenant: string) {
    super(
      `The tenant ${JSON.stringify(tenant)} is suspended and can only be read: resume it with \`pi-sessions tenant resume\` or \`db.tenants.resume\`.`,
    );
    this.tenant = tenant;
  }
}

/** What a tenant may have at most: sessions, bytes of all its sessions, bytes of one entry's payload. */
export type TenantLimit = "sessions" | "storedBytes" | "entryBytes";

const LIMITED = {
  sessions: "sessions",
  storedBytes: "bytes in its sessions",
  entryBytes: "bytes in an entry",
} as const;

/** The tenant would have more than it may have. Nothing was written. */
export class TenantLimitError extends PiSessionError {
  readonly code = "tenant_limit";
  readonly tenant: string;
  readonly limit: TenantLimit;
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

/** The repository or the database was closed. */
export class DatabaseClosedError extends PiSessionError {
  readonly code = "database_closed";

  constructor(what: "database" | "repository") {
    super(`The ${what} is closed: open it again.`);
  }
}

/** Something stored does not have the form that this package writes. */
export class StoredDataError extends PiSessionError {
  readonly code = "stored_data";

  constructor(problem: string) {
    super(`The database holds ${problem}, which this package never writes: restore the row from a backup.`);
  }
}
