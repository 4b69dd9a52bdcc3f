import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { runCommand } from "../cli/pi-sessions.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { ROOT, readPage } from "./pages.ts";

const PROMPT = "    $ pi-sessions ";
const SHOWN = await shownIn("docs/analytics.md");

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
  const repo = await at.database.repo("default");
  await importAll(repo.importer, [join(ROOT, "examples/archives")], {}, context);
});
afterAll(() => at[Symbol.asyncDispose]());

/** Commands, each with the lines that stand below it. */
async function shownIn(page: string): Promise<{ command: string; output: string }[]> {
  const text = await readPage(page);
  const [, ...parts] = text.split(PROMPT);
  return parts.map((part) => {
    const [command = "", ...lines] = part.split("\n");
    const output = lines.slice(0, lines.indexOf("")).map((line) => line.slice(4));
    return { command, output: output.join("\n") };
  });
}

test("there are reports to be seen", () => {
  expect(SHOWN.length).toBeGreaterThanOrEqual(3);
});

test.each(SHOWN)("$command prints what the page shows", async ({ command, output }) => {
  const { stdout, stderr } = await runCommand([
    ...command.split(" "),
    ...["--database-url", at.connectionString, "--schema", at.schema],
  ]);
  expect({ output: stdout.trimEnd(), stderr }).toEqual({ output, stderr: "" });
});
