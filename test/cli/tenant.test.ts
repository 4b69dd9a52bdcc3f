import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const asOwner = (...args: string[]) =>
  runCommand([...args, "--database-url", at.ownerConnectionString, "--schema", at.schema]);
const asApplication = (...args: string[]) =>
  runCommand([...args, "--database-url", at.connectionString, "--schema", at.schema]);

test("tenants are created, shown, renamed, limited, suspended, resumed and deleted", async () => {
  const created = await asOwner(
    ...["tenant", "create", "acme", "--name", "Acme Inc.", "--settings", '{"plan":"pro"}'],
    ...["--max-sessions", "10", "--json"],
  );
  expect(created).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(created.stdout)).toMatchObject({
    slug: "acme",
    name: "Acme Inc.",
    settings: { plan: "pro" },
    limits: { sessions: 10 },
  });
  expect((await asOwner("tenant", "list")).stdout).toMatch(/^acme +Acme Inc\. .* active +10 +– +–$/m);
  expect((await asOwner("tenant", "rename", "acme", "Acme Ltd.")).stdout).toContain("Acme Ltd.");
  expect((await asOwner("tenant", "limit", "acme", "--max-entry-bytes", "5000")).stdout).toMatch(
    / 10 +– +5,000$/m,
  );
  expect((await asOwner("tenant", "suspend", "acme")).stdout).toContain("suspended 20");
  const repo = await at.database.repo("acme");
  await expect(repo.create({}, context)).rejects.toMatchObject({ code: "tenant_suspended" });
  expect((await asOwner("tenant", "resume", "acme")).stdout).toContain("active");
  await (await repo.create({}, context)).close(context);
  expect(await asOwner("tenant", "delete", "acme", "--confirm", "acme")).toMatchObject({
    code: 0,
    stdout: "Deleted acme: 1 sessions, 0 entries, 0 usage rows, 0 values, 0 list elements.\n",
  });
  expect(await asOwner("tenant", "show", "acme")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no tenant "acme"'),
  });
});

test.each([
  { args: ["tenant", "create", "bad", "--settings", "[]"], code: 2, stderr: "JSON object" },
  { args: ["tenant", "create", "bad", "--max-sessions", "-1"], code: 2, stderr: "whole number" },
  { args: ["tenant", "create", ""], code: 2, stderr: "is empty" },
  { args: ["tenant", "create", "default"], code: 1, stderr: "already exists" },
  { args: ["tenant", "delete", "default"], code: 2, stderr: "--confirm" },
  {
    args: ["tenant", "delete", "default", "--confirm", "Default"],
    code: 2,
    stderr: 'is not "default": repeat',
  },
  { args: ["tenant", "limit", "default"], code: 2, stderr: "Name at least one limit" },
  { args: ["tenant", "limit", "default", "--max-sessions", "many"], code: 2, stderr: "0 or more" },
  { args: ["tenant", "settings", "default", "[]"], code: 2, stderr: "JSON object" },
  { args: ["tenant", "settings", "nobody", "{}"], code: 1, stderr: "`pi-sessions tenant list` shows" },
  { args: ["tenant", "nonsense"], code: 2, stderr: "nonsense" },
])("$args ends with $code", async ({ args, code, stderr }) => {
  const finished = await asOwner(...args);
  expect(finished).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(stderr) });
  expect(finished.stderr).toMatch(/^error: .*\n/);
});

test("limits are changed and lifted one at a time", async () => {
  await at.database.tenants.create({ slug: "limited" });
  const limit = async (...args: string[]) => {
    const { code, stdout } = await asOwner("tenant", "limit", "limited", ...args, "--json");
    expect(code).toBe(0);
    return (JSON.parse(stdout) as { limits: object }).limits;
  };
  expect(await limit("--max-sessions", "10", "--max-stored-bytes", "1000000")).toEqual({
    sessions: 10,
    storedBytes: 1_000_000,
  });
  expect(await limit("--max-entry-bytes", "0")).toEqual({
    sessions: 10,
    storedBytes: 1_000_000,
    entryBytes: 0,
  });
  expect(await limit("--no-max-sessions", "--max-entry-bytes", "5")).toEqual({
    storedBytes: 1_000_000,
    entryBytes: 5,
  });
  expect(await limit("--no-max-stored-bytes", "--no-max-entry-bytes")).toEqual({});
});

test("settings are printed, and replaced as a whole", async () => {
  await at.database.tenants.create({ slug: "set", settings: { plan: "pro", note: "\u009b31m" } });
  const settings = (...args: string[]) => asOwner("tenant", "settings", "set", ...args);
  const printed = await settings();
  expect(JSON.parse(printed.stdout)).toEqual({ plan: "pro", note: "\u009b31m" });
  expect(printed.stdout).not.toContain("\u009b");
  expect((await asOwner("tenant", "show", "set")).stdout).toMatch(
    /^SLUG.*\nset .*\n\nSettings:\n\{\n {2}"plan": "pro",\n {2}"note": "\\u009b31m"\n\}\n$/,
  );
  expect((await settings('{"plan":"free"}')).stdout).toBe('{\n  "plan": "free"\n}\n');
  expect((await settings("{}")).stdout).toBe("{}\n");
  expect((await asOwner("tenant", "show", "set")).stdout).not.toContain("Settings");
});

test.each(["create", "list", "show", "rename", "suspend", "resume", "settings", "limit", "delete"])(
  "tenant %s --help has examples",
  async (command) => {
    const { code, stdout } = await runCommand(["tenant", command, "--help"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`Examples:\n {2}pi-sessions tenant ${command}\\b`));
    expect(stdout).toContain("Exit codes:");
  },
);

test("the application role is told that it may not", async () => {
  for (const args of [["list"], ["suspend", "default"], ["delete", "default", "--confirm", "default"]]) {
    expect(await asApplication("tenant", ...args)).toMatchObject({
      code: 3,
      stdout: "",
      stderr: expect.stringContaining("connect with the role that owns the schema"),
    });
  }
});

describe("doctor", () => {
  test("proves that the application role is bound to one tenant", async () => {
    const { code, stdout } = await asApplication("doctor");
    expect(stdout).toMatch(/isolation +ok +tried: as "pi_test_/);
    expect(code).toBe(0);
  });

  test("says loudly that a superuser is not", async () => {
    const { code, stdout } = await asOwner("doctor");
    expect(stdout).toMatch(/isolation +FAILED +TENANTS ARE NOT ISOLATED/);
    expect(stdout).toContain("(superuser)");
    expect(code).toBe(1);
  });
});
