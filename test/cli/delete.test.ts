import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const run = (...args: string[]) =>
  runCommand(["delete", ...args, "--database-url", at.connectionString, "--schema", at.schema]);

async function fill(...ids: string[]): Promise<void> {
  const repo = await at.database.repo("default");
  for (const id of ids) await (await repo.create({ id }, context)).close(context);
}

const stored = async () =>
  (await (await at.database.repo("default")).list(undefined, context)).map(({ id }) => id).sort();

test("deletes the session of this id, and no other", async () => {
  await fill("abc", "abc-1", "abc-2");
  expect(await run("abc", "--confirm", "abc")).toEqual({
    code: 0,
    signal: null,
    stdout: "Deleted abc.\n",
    stderr: "",
  });
  expect(JSON.parse((await run("abc-1", "--confirm", "abc-1", "--json")).stdout)).toEqual({
    deleted: "abc-1",
  });
  expect(await stored()).toEqual(["abc-2"]);
});

test.each([
  { args: ["abc-3"], code: 2, stderr: "--confirm" },
  { args: ["abc-3", "--confirm", "abc"], code: 2, stderr: 'is not "abc-3"' },
  { args: ["abc-", "--confirm", "abc-"], code: 1, stderr: "`pi-sessions list` shows the ids" },
  { args: ["", "--confirm", ""], code: 2, stderr: "is empty" },
])("$args ends with $code and deletes nothing", async ({ args, code, stderr }) => {
  if (!(await stored()).includes("abc-3")) await fill("abc-3");
  expect(await run(...args)).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(stderr) });
  expect(await stored()).toContain("abc-3");
});
