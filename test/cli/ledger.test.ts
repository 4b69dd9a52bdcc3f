import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, insertUsage, type Session } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand, startCommand } from "./pi-sessions.ts";

let at: TestDatabase;
let directory: string;
let session: Session;
let rows = 0;

beforeAll(async () => {
  at = await openTestDatabase();
  directory = await mkdtemp(join(tmpdir(), "pi-sessions-"));
  session = await (await at.database.repo("default")).create({ metadata: { project: "apollo" } }, context);
});
afterAll(async () => {
  await at[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

const usage = (...args: string[]) =>
  runCommand(["usage", ...args, "--database-url", at.connectionString, "--schema", at.schema]);
const asOwner = (...args: string[]) =>
  runCommand(["usage", ...args, "--database-url", at.ownerConnectionString, "--schema", at.schema]);

async function spend(count: number): Promise<void> {
  const cost = { input: 0, output: 0.25, cacheRead: 0, cacheWrite: 0, total: 0.25 };
  const writes = Array.from({ length: count }, () =>
    insertUsage({
      id: `u${++rows}`,
      adjustment: false,
      usage: { input: 0, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 5, cost },
    }),
  );
  await session.mutate((mutator) => mutator.commit(writes, context), context);
  // Until nothing on the server is older: other tests use it too.
  for (let settled = false; !settled; ) {
    const { rows: found } = await at.admin.query(
      `select "${at.schema}".ledger_horizon() > max(position) as settled from "${at.schema}".usage_ledger`,
    );
    settled = found[0].settled;
  }
}

const idsIn = (jsonLines: string) =>
  jsonLines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line).id);

test("the ledger is exported once, run by run, with a cursor in a file", async () => {
  const file = join(directory, "cursor");
  await spend(1_500);
  const first = await usage("export", "--since-cursor-file", file);
  expect(first).toMatchObject({ code: 0, stderr: "1,500 rows.\n" });
  expect(idsIn(first.stdout)).toEqual(Array.from({ length: 1_500 }, (_, index) => `u${index + 1}`));
  expect(JSON.parse(first.stdout.split("\n")[0] ?? "")).toMatchObject({ cost: { total: "0.25" }, output: 5 });
  expect(await usage("export", "--since-cursor-file", file)).toMatchObject({ code: 0, stdout: "" });
  await spend(2);
  expect(idsIn((await usage("export", "--since-cursor-file", file)).stdout)).toEqual(["u1501", "u1502"]);
  expect(idsIn((await usage("export")).stdout)).toHaveLength(1_502);
  expect((await readFile(file, "utf8")).trim()).not.toBe("");
});

test("a reader that does not take all rows is told by the exit code", async () => {
  await spend(2_000);
  const {
    process: child,
    firstLine,
    finished,
  } = startCommand(["usage", "export", "--database-url", at.connectionString, "--schema", at.schema]);
  await firstLine;
  child.stdout.destroy();
  expect((await finished).code).toBe(1);
});

test("a cursor file that holds something else is refused, and so is a role that does not see all tenants", async () => {
  const file = join(directory, "broken");
  await writeFile(file, "not a cursor\n");
  const broken = await usage("export", "--since-cursor-file", file);
  expect(broken).toMatchObject({ code: 2, stdout: "" });
  expect(broken.stderr).toMatch(/^error: The cursor is not one that was returned/);
  const application = await usage("export", "--all-tenants");
  expect(application).toMatchObject({ code: 3, stdout: "" });
  expect((await asOwner("export", "--all-tenants")).code).toBe(0);
});

test("a cursor file that is empty or cannot be written is told before the first row", async () => {
  await spend(1);
  const empty = join(directory, "empty");
  await writeFile(empty, "");
  for (const [file, reason] of [
    [empty, "is empty"],
    [directory, "EISDIR"],
    [join(directory, "nowhere", "cursor"), "ENOENT"],
  ] as const) {
    const { code, stdout, stderr } = await usage("export", "--since-cursor-file", file);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(`The cursor file ${file} `);
    expect(stderr).toContain(reason);
  }
});

test("roll-up sums what is new, once or again and again, and rebuild all of it", async () => {
  await spend(1);
  expect((await asOwner("roll-up", "--all-tenants")).stdout).toBe(
    `${rows.toLocaleString("en-US")} new rows are summed.\n`,
  );
  expect((await usage("roll-up")).stdout).toBe("0 new rows are summed.\n");
  const rolling = startCommand([
    "usage",
    "roll-up",
    "--every",
    "0",
    "--database-url",
    at.connectionString,
    "--schema",
    at.schema,
  ]);
  await spend(3);
  expect(await rolling.firstLine).toBe("3 new rows are summed.");
  rolling.process.kill("SIGTERM");
  expect(await rolling.finished).toMatchObject({ signal: "SIGTERM" });
  expect((await usage("rebuild")).stdout).toBe(`${rows.toLocaleString("en-US")} rows are summed.\n`);
  expect((await asOwner("after-restore")).code).toBe(0);
  expect((await usage("after-restore")).code).toBe(3);
});

test("budgets are set, shown with what is spent, and removed", async () => {
  expect((await usage("--budget")).stdout).toBe("No budgets.\n");
  const set = await usage(
    ...["budget", "set", "--period", "month", "--amount", "1000.5", "--tz", "Europe/Berlin", "--hard"],
  );
  expect(set).toMatchObject({ code: 0, stderr: "" });
  expect(set.stdout).toMatch(/month .* hard .*\$1,000\.5000 /);
  const shown = await usage("--budget", "--json");
  expect(JSON.parse(shown.stdout)).toMatchObject([
    {
      period: "month",
      timeZone: "Europe/Berlin",
      isHard: true,
      amount: "1000.5",
      spent: String(rows * 0.25),
    },
  ]);
  expect((await usage("budget", "remove", "--period", "month")).stdout).toBe("No budgets.\n");
  expect(await usage("budget", "set", "--period", "year", "--amount", "1")).toMatchObject({ code: 2 });
  expect(await usage("budget", "set", "--period", "day", "--amount", "much")).toMatchObject({ code: 2 });
});

test("dimensions are set, shown and taken away", async () => {
  expect((await usage("dimensions")).stdout).toBe("No dimensions.\n");
  expect((await usage("dimensions", "project", "team")).stdout).toBe("project\nteam\n");
  await spend(1);
  const exported = (await usage("export")).stdout.trim().split("\n").at(-1) ?? "";
  expect(JSON.parse(exported).dimensions).toEqual({ project: "apollo" });
  expect((await usage("dimensions", "--none")).stdout).toBe("No dimensions.\n");
  expect((await usage("dimensions", "x", "--none")).code).toBe(2);
});
