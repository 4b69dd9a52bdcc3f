/**
 * Every error that this package raises on purpose. `code` is stable, so that a caller can branch on it
 * across versions and realms; the message says what happened, to what, and what to do.
 */
export abstract class PiSessionError extends Error {
  abstract readonly code: string;

  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A text that PostgreSQL cannot hold, or that is too long, was used as an identifier. */
export class InvalidTextError extends PiSessionError {
  readonly code = "invalid_text";
  /** What the text was meant for: "key", "entry id", … The text itself is not repeated. */
  readonly what: string;

  constructor(what: string, problem: string, remedy: string) {
    super(`The ${what} ${problem}: ${remedy}.`);
    this.what = what;
  }
}

/** An option has a value outside its range, or is not known. */
export class InvalidOptionError extends PiSessionError {
  readonly code = "invalid_option";
  readonly option: string;

  constructor(option: string, given: unknown, remedy: string) {
    super(`The option \`${option}\` cannot be ${String(given)}: ${remedy}.`);
    this.option = option;
  }
}

/** A usage row holds something that the ledger cannot sum. */
export class InvalidUsageError extends PiSessionError {
  readonly code = "invalid_usage";
  readonly usageId: string;
  readonly field: string;

  constructor(usageId: string, field: string, expected: string) {
    super(
      `The usage row ${JSON.stringify(usageId)} has no usable \`usage.${field}\`: set it to ${expected}.`,
    );
    this.usageId = usageId;
    this.field = field;
  }
}

/** A write of a commit is malformed. `index` is its position in the commit. */
export class InvalidWriteError extends PiSessionError {
  readonly code = "invalid_write";
  readonly index: number;

  constructor(index: number, problem: string, remedy: string, options?: { cause?: unknown }) {
    super(`Write ${index} of the commit ${problem}: ${remedy}.`, options);
    this.index = index;
  }
}

/** An id is already taken by an entry or a usage row of the session, or occurs twice in the commit. */
export class DuplicateIdError extends PiSessionError {
  readonly code = "duplicate_id";
  readonly id: string;

  constructor(id: string) {
    super(
      `The id ${JSON.stringify(id)} is already used by an entry or usage row of this session; nothing was committed: use a new id.`,
    );
    this.id = id;
  }
}

/** An entry names a parent that is neither in the session nor earlier in the commit. */
export class MissingParentError extends PiSessionError {
  readonly code = "missing_parent";
  readonly parentId: string;

  constructor(parentId: string) {
    super(
      `The parent ${JSON.stringify(parentId)} is no entry of this session; nothing was committed: commit the parent first, or earlier in the same commit.`,
    );
    this.parentId = parentId;
  }
}

/** An entry was asked for that the session does not have. */
export class UnknownEntryError extends PiSessionError {
  readonly code = "unknown_entry";
  readonly entryId: string;

  constructor(entryId: string) {
    super(`The session has no entry ${JSON.stringify(entryId)}: pass the id of one of its entries.`);
    this.entryId = entryId;
  }
}

export class SessionClosedError extends PiSessionError {
  readonly code = "session_closed";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(`The session ${JSON.stringify(sessionId)} is closed: open it again with \`repo.open\`.`);
    this.sessionId = sessionId;
  }
}

export class SessionNotFoundError extends PiSessionError {
  readonly code = "session_not_found";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `There is no session ${JSON.stringify(sessionId)} in this tenant: list the sessions to find its id.`,
    );
    this.sessionId = sessionId;
  }
}

export class SessionExistsError extends PiSessionError {
  readonly code = "session_exists";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} already exists in this tenant: use another id, or open it.`,
    );
    this.sessionId = sessionId;
  }
}

/** This repository already holds the session open. */
export class SessionOpenError extends PiSessionError {
  readonly code = "session_open";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} is open in this repository: use that object, or close it first.`,
    );
    this.sessionId = sessionId;
  }
}

/** The stored session was written by a newer format than this package knows. */
export class SessionVersionError extends PiSessionError {
  readonly code = "session_version";
  readonly sessionId: string;

  constructor(sessionId: string, version: number) {
    super(
      `The session ${JSON.stringify(sessionId)} has storage version ${version}, which this release cannot read: upgrade pi-session-postgres.`,
    );
    this.sessionId = sessionId;
  }
}

export class BranchNotFoundError extends PiSessionError {
  readonly code = "branch_not_found";
  readonly branch: string;

  constructor(branch: string) {
    super(`There is no branch ${JSON.stringify(branch)}: create it with \`session.createBranch\`.`);
    this.branch = branch;
  }
}

export class BranchExistsError extends PiSessionError {
  readonly code = "branch_exists";
  readonly branch: string;

  constructor(branch: string) {
    super(`The branch ${JSON.stringify(branch)} already exists: get it with \`session.branch\`.`);
    this.branch = branch;
  }
}

/** An assistant message that still streams was handed in as an entry. */
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

/** A mutation commits at most once. */
export class MutationCommittedError extends PiSessionError {
  readonly code = "mutation_committed";

  constructor() {
    super(
      "This mutation has already tried to commit: put all writes into one commit, or begin a new mutation.",
    );
  }
}

/** Somebody else has committed since the mutation first read, so its commit might rest on what is no longer true. */
export class SessionConflictError extends PiSessionError {
  readonly code = "session_conflict";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `Another writer has committed to the session ${JSON.stringify(sessionId)} since this mutation first read, and nothing was committed: begin a new mutation, or use \`mutate\`, which does.`,
    );
    this.sessionId = sessionId;
  }
}

/** The session was opened exclusively after this one was opened; from then on this one can only read. */
export class SessionFencedError extends PiSessionError {
  readonly code = "session_fenced";
  readonly sessionId: string;

  constructor(sessionId: string) {
    super(
      `The session ${JSON.stringify(sessionId)} was opened exclusively by another writer, and nothing was committed: leave it to that writer, or open it again.`,
    );
    this.sessionId = sessionId;
  }
}

/** The source session cannot be forked in the way that was asked for. */
export class ForkError extends PiSessionError {
  readonly code = "fork_refused";
  readonly sessionId: string;

  constructor(sessionId: string, problem: string, remedy: string) {
    super(`The session ${JSON.stringify(sessionId)} cannot be forked, because ${problem}: ${remedy}.`);
    this.sessionId = sessionId;
  }
}

/** Other commits came first, again and again. */
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
