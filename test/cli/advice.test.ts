import { describe, expect, test } from "vitest";
import { toldError, toldReason } from "../../src/cli/advice.ts";
import { EXIT, exitCodeOf } from "../../src/cli/exit-codes.ts";
import {
  BranchNotFoundError,
  CommitContentionError,
  CommitOutcomeUnknownError,
  DatabaseConnectionLostError,
  DatabaseFullError,
  DatabaseNotMigratedError,
  DatabasePermissionError,
  InvalidCursorError,
  InvalidOptionError,
  InvalidSchemaNameError,
  MigrationLockedError,
  OperationTimeoutError,
  type PiSessionError,
  RoleNotFoundError,
  SessionNotFoundError,
  TenantBeingDeletedError,
  TenantExistsError,
  TenantLimitError,
  TenantNotFoundError,
  TenantSuspendedError,
  UnsupportedServerError,
} from "../../src/index.ts";

const ERRORS: readonly (readonly [PiSessionError, number])[] = [
  [new DatabaseConnectionLostError(), EXIT.database],
  [new DatabaseFullError("disk full"), EXIT.database],
  [new DatabaseNotMigratedError("pi_sessions"), EXIT.database],
  [new DatabasePermissionError("permission denied"), EXIT.database],
  [new MigrationLockedError("pi_sessions"), EXIT.database],
  [new UnsupportedServerError("9.6"), EXIT.database],
  [new BranchNotFoundError("a: b"), EXIT.foundFailures],
  [new CommitContentionError(3), EXIT.foundFailures],
  [new CommitOutcomeUnknownError(), EXIT.foundFailures],
  [new OperationTimeoutError("canceling statement"), EXIT.foundFailures],
  [new SessionNotFoundError("abc"), EXIT.foundFailures],
  [new TenantBeingDeletedError("acme"), EXIT.foundFailures],
  [new TenantExistsError("acme"), EXIT.foundFailures],
  [new TenantLimitError("acme", "sessions", 3), EXIT.foundFailures],
  [new TenantNotFoundError("acme"), EXIT.foundFailures],
  [new TenantSuspendedError("acme"), EXIT.foundFailures],
  [new InvalidCursorError("is foreign"), EXIT.usage],
  [new InvalidOptionError("role", '""', "pass a name"), EXIT.usage],
  [new InvalidSchemaNameError("is empty"), EXIT.usage],
  [new RoleNotFoundError("app"), EXIT.usage],
];

describe.each(ERRORS)("%s", (error, exitCode) => {
  test("advises nothing that only a program can do", () => {
    expect(toldError(error)).toMatch(/^\p{Lu}.+\.$/u);
    expect(toldError(error)).not.toMatch(/db\.|repo\.|session\.|`next`|`mutate`|option `| call again/);
  });

  test(`ends with ${exitCode}`, () => {
    expect(exitCodeOf(error.code)).toBe(exitCode);
  });
});

test("what was refused stays in the text, whatever it is called", () => {
  expect(toldError(new BranchNotFoundError("a: b"))).toBe(
    'There is no branch "a: b": take one of those that `pi-sessions show` puts in brackets.',
  );
  expect(toldError(new InvalidOptionError("role", '"x"', "pass a name"))).toMatch(
    /--application-role or --analyst-role .*: pass a name\.$/,
  );
});

test("reasons that only a report holds get the same advice", () => {
  expect(toldReason("session_exists", 'the session "x" is already stored: delete it first')).toBe(
    'the session "x" is already stored: delete it with `pi-sessions delete`, or import into another --tenant',
  );
  expect(toldReason("invalid_json", "the line is no JSON")).toBe("the line is no JSON");
});

test("an error of the embedded server, or on the way to one, means that the database cannot be used", () => {
  expect(exitCodeOf("database_unreachable")).toBe(EXIT.database);
  expect(exitCodeOf("server_start")).toBe(EXIT.database);
  expect(exitCodeOf("a_new_code")).toBe(EXIT.foundFailures);
});

test.each([
  [
    new InvalidOptionError("to", '"2026-01"', "pass a time after `from`"),
    'The option --to cannot be "2026-01": pass a time after --from.',
  ],
  [
    new InvalidOptionError("where.foo", '["a"]', "filter by model"),
    'The option --where foo cannot be ["a"]: filter by model.',
  ],
  [
    new InvalidOptionError("include", '[""]', "pass globs"),
    'The option --include cannot be [""]: pass globs.',
  ],
])("options have the names that they have here", (error, told) => {
  expect(toldError(error)).toBe(told);
});
