/**
 * Every error that this package raises on purpose. The message says what happened, to what, and what to do. The error
 * of the server or the driver, if there was one, is the `cause`; its `detail` may hold stored values.
 */
export abstract class PiSessionError extends Error {
  /**
   * Stable across versions and realms: branch on it. One code per class, except in ArchiveError and
   * EmbeddedServerError.
   */
  abstract readonly code: string;

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/**
 * An identifier is not a string, is empty where it must not be, is too long, or holds a NUL or a lone surrogate,
 * which PostgreSQL cannot store. Nothing was sent.
 */
export class InvalidTextError extends PiSessionError {
  readonly code = "invalid_text";
  /** What the text was meant for, for example `key` or `entry id`. The text itself is not repeated. */
  readonly what: string;

  constructor(what: string, problem: string, remedy: string) {
    super(`The ${what} ${problem}: ${remedy}.`);
    this.what = what;
  }
}

/** An option or argument has a value outside its range, or is not known. Nothing was sent. */
export class InvalidOptionError extends PiSessionError {
  readonly code = "invalid_option";
  /** Name of the option, with a dot before the member of an object: `limits.sessions`. */
  readonly option: string;

  constructor(option: string, given: unknown, remedy: string) {
    super(`The option \`${option}\` cannot be ${String(given)}: ${remedy}.`);
    this.option = option;
  }
}

/** A usage row holds something that the ledger cannot sum. Nothing was sent. */
export class InvalidUsageError extends PiSessionError {
  readonly code = "invalid_usage";
  /** Id of the usage row. */
  readonly usageId: string;
  /** The field at fault, for example `input` or `cost.total`. */
  readonly field: string;

  constructor(usageId: string, field: string, expected: string) {
    super(
      `The usage row ${JSON.stringify(usageId)} has no usable \`usage.${field}\`: set it to ${expected}.`,
    );
    this.usageId = usageId;
    this.field = field;
  }
}

/** A write of a commit is malformed, or cannot be written as JSON. Nothing was committed. */
export class InvalidWriteError extends PiSessionError {
  readonly code = "invalid_write";
  /** Position of the write in its commit, from 0. */
  readonly index: number;

  constructor(index: number, problem: string, remedy: string, options?: { cause?: unknown }) {
    super(`Write ${index} of the commit ${problem}: ${remedy}.`, options);
    this.index = index;
  }
}

/**
 * An id is already taken by an entry or a usage row of the session, or occurs twice in the commit. Nothing was
 * committed.
 */
export class DuplicateIdError extends PiSessionError {
  readonly code = "duplicate_id";
  /** The id that is taken. */
  readonly id: string;

  constructor(id: string) {
    super(
      `The id ${JSON.stringify(id)} is already used by an entry or usage row of this session; nothing was committed: use a new id.`,
    );
    this.id = id;
  }
}

/** An entry names a parent that is neither in the session nor earlier in the commit. Nothing was committed. */
export class MissingParentError extends PiSessionError {
  readonly code = "missing_parent";
  /** The parent that is missing. */
  readonly parentId: string;

  constructor(parentId: string) {
    super(
      `The parent ${JSON.stringify(parentId)} is no entry of this session; nothing was committed: commit the parent first, or earlier in the same commit.`,
    );
    this.parentId = parentId;
  }
}

/** A scan starts at, or a branch is created at, an entry that the session does not have. */
export class UnknownEntryError extends PiSessionError {
  readonly code = "unknown_entry";
  /** The id that was asked for. */
  readonly entryId: string;

  constructor(entryId: string) {
    super(`The session has no entry ${JSON.stringify(entryId)}: pass the id of one of its entries.`);
    this.entryId = entryId;
  }
}

/** The session, or its storage, was closed: by itself, its repository or its database. Nothing was sent. */
export class SessionClosedError extends PiSessionError {
  readonly code = "session_closed";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(`The session ${JSON.stringify(sessionId)} is closed: open it again with \`repo.open\`.`);
    this.sessionId = sessionId;
  }
}

/** The tenant has no such session, or no longer. */
export class SessionNotFoundError extends PiSessionError {
  readonly code = "session_not_found";
  /** The id that was asked for. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `There is no session ${JSON.stringify(sessionId)} in this tenant: list the sessions to find its id.`,
    );
    this.sessionId = sessionId;
  }
}

/** The tenant already has a session with this id, or this repository is just creating one. Nothing was stored. */
export class SessionExistsError extends PiSessionError {
  readonly code = "session_exists";
  /** The id that is taken. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} already exists in this tenant: use another id, or open it.`,
    );
    this.sessionId = sessionId;
  }
}

/** This repository holds the session open, or is just creating, forking or opening it. */
export class SessionOpenError extends PiSessionError {
  readonly code = "session_open";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} is open in this repository: use that object, or close it first.`,
    );
    this.sessionId = sessionId;
  }
}

/** The session was stored by a newer release, in a form that this one cannot read. */
export class SessionVersionError extends PiSessionError {
  readonly code = "session_version";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string, version: number) {
    super(
      `The session ${JSON.stringify(sessionId)} has storage version ${version}, which this release cannot read: upgrade pi-session-postgres.`,
    );
    this.sessionId = sessionId;
  }
}

/** The session has no such branch, or no longer. Nothing was committed. */
export class BranchNotFoundError extends PiSessionError {
  readonly code = "branch_not_found";
  /** The name that was asked for. */
  readonly branch: string;

  constructor(branch: string) {
    super(`There is no branch ${JSON.stringify(branch)}: create it with \`session.createBranch\`.`);
    this.branch = branch;
  }
}

/** The session already has a branch with this name. Nothing was committed. */
export class BranchExistsError extends PiSessionError {
  readonly code = "branch_exists";
  /** The name that is taken. */
  readonly branch: string;

  constructor(branch: string) {
    super(`The branch ${JSON.stringify(branch)} already exists: get it with \`session.branch\`.`);
    this.branch = branch;
  }
}

/**
 * An assistant message with stop reason `pending` was handed in as an entry. It may still change, and entries never
 * do. Nothing was committed.
 */
export class PendingMessageError extends PiSessionError {
  readonly code = "pending_message";

  constructor() {
    super(
      "An assistant message with stop reason `pending` cannot become an entry: commit it when it is settled.",
    );
  }
}

/** A mutation was used after it had ended. */
export class MutationEndedError extends PiSessionError {
  readonly code = "mutation_ended";

  constructor() {
    super("This mutation has ended: begin a new one.");
  }
}

/** A mutation was to commit a second time; also a failed attempt counts. The second commit was not sent. */
export class MutationCommittedError extends PiSessionError {
  readonly code = "mutation_committed";

  constructor() {
    super(
      "This mutation has already tried to commit: put all writes into one commit, or begin a new mutation.",
    );
  }
}

/**
 * Another writer has committed since the mutation's first read, so its commit might rest on what is no longer true.
 * Nothing was committed; begin a new mutation.
 */
export class SessionConflictError extends PiSessionError {
  readonly code = "session_conflict";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `Another writer has committed to the session ${JSON.stringify(sessionId)} since this mutation first read, and nothing was committed: begin a new mutation, or use \`mutate\`, which does.`,
    );
    this.sessionId = sessionId;
  }
}

/**
 * Another writer has opened the session exclusively since this one opened it. Nothing was committed; from then on
 * this one can only read.
 */
export class SessionFencedError extends PiSessionError {
  readonly code = "session_fenced";
  /** Id of the session. */
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} was opened exclusively by another writer, and nothing was committed: leave it to that writer, or open it again.`,
    );
    this.sessionId = sessionId;
  }
}

/**
 * The source cannot be forked in this way: the branch, the entry or the lane is missing, or it holds state in a
 * reserved namespace that this release does not know. Nothing was stored.
 */
export class ForkError extends PiSessionError {
  readonly code = "fork_refused";
  /** Id of the source. */
  readonly sessionId: string;

  constructor(sessionId: string, problem: string, remedy: string) {
    super(`The session ${JSON.stringify(sessionId)} cannot be forked, because ${problem}: ${remedy}.`);
    this.sessionId = sessionId;
  }
}

/**
 * Other transactions came first: a commit was overtaken too often, or a serialization failure or a deadlock ended the
 * transaction. Nothing was committed; it is safe to try again.
 */
export class CommitContentionError extends PiSessionError {
  readonly code = "commit_contention";

  constructor(attempts: number, options?: { cause?: unknown }) {
    super(
      attempts === 1
        ? "Another transaction came first, and nothing was committed: run it again."
        : `Other transactions came first ${attempts} times in a row, and nothing was committed: it is safe to try again later.`,
      options,
    );
  }
}
