import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fitted } from "../../src/cli/fit.ts";
import { BACKGROUND_CONTEXT as context, emptyUsage, insertUsage } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;
const LONG_ID = "019ad920-7f40-7c3e-8a11-5d0c9b7e2f64";

beforeAll(async () => {
  at = await openTestDatabase();
  const repo = await at.database.repo("default");
  for (const [id, options] of [
    ["one", { cwd: "/srv/app", metadata: { userId: "u1", tags: ["vat"] } }],
    ["two", { cwd: "/srv/other", parentSessionId: "one" }],
    [LONG_ID, { cwd: "/home/somebody/projects/a-long-name-of-a-directory" }],
  ] as const) {
    const session = await repo.create({ id, ...options }, context);
    const main = await session.createBranch("main", null, context);
    const tip = await main.appendMessage(
      { role: "user", content: `${id}: the first message, which is long enough to be cut`, timestamp: 1 },
      context,
    );
    if (id === "two") await session.setName("second \u001b[2J\u202e", context);
    const usage = { ...emptyUsage(), totalTokens: 10_000, cost: { ...emptyUsage().cost, total: 1 } };
    await session.mutate(
      (mutator) =>
        mutator.commit([insertUsage({ id: `u-${id}`, usage, entryId: tip, adjustment: false })], context),
      context,
    );
    await session.close(context);
  }
  // Hours apart, however fast they were made.
  await at.admin.query(
    `update "${at.schema}".sessions set created_at = 1764547200000 + 3600000 * array_position($1, session_id)`,
    [["one", "two", LONG_ID]],
  );
});
afterAll(() => at[Symbol.asyncDispose]());

const run = (args: readonly string[], env = {}) =>
  runCommand(["list", ...args, "--database-url", at.connectionString, "--schema", at.schema], env);
const idsOf = async (...args: string[]) => {
  const { code, stdout } = await run([...args, "--json"]);
  expect(code).toBe(0);
  return (JSON.parse(stdout) as { sessions: { id: string }[] }).sessions.map(({ id }) => id);
};
const terminal = (columns: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,process.stdout.isTTY=true;process.stdout.columns=${columns}`,
});

test("prints what a person picks a session by, on a pipe in full", async () => {
  const { code, stdout, stderr } = await run([]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^ID +NAME +DIRECTORY +CREATED \(UTC\) +MESSAGES +TOKENS +COST$/),
    expect.stringMatching(new RegExp(`^${LONG_ID} .*… +2025-12-01 03:00 +1 +10,000 +\\$1\\.0000$`)),
    expect.stringMatching(/^two +second .\[2J. +\/srv\/other +2025-12-01 02:00 +1 +10,000 +\$1\.0000$/),
    expect.stringMatching(/^one +one: the first .*… +\/srv\/app +2025-12-01 01:00 +1 +10,000 +\$1\.0000$/),
    "",
  ]);
});

test("prints everything that is known of a session as JSON", async () => {
  const { stdout, stderr } = await run(["--json", "--cwd", "/srv/app"]);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({
    sessions: [
      {
        id: "one",
        createdAt: 1764550800000,
        storageVersion: expect.any(Number),
        cwd: "/srv/app",
        metadata: { userId: "u1", tags: ["vat"] },
        firstMessage: expect.stringContaining("one: the first message"),
        modifiedAt: expect.any(Number),
        mainTipId: expect.any(String),
        messageCount: 1,
        usage: expect.objectContaining({ totalTokens: 10_000 }),
      },
    ],
    next: null,
  });
});

test("says so where there are none", async () => {
  expect(await run(["--cwd", "/nowhere"])).toEqual({
    code: 0,
    signal: null,
    stdout: "No sessions.\n",
    stderr: "",
  });
});

test.each([
  { args: ["--sort", "created", "--order", "asc"], ids: ["one", "two", LONG_ID] },
  { args: ["--sort", "modified"], ids: [LONG_ID, "two", "one"] },
  { args: ["--sort", "name"], ids: ["two", LONG_ID, "one"] },
  { args: ["--name", "sec"], ids: ["two"] },
  { args: ["--parent", "one"], ids: ["two"] },
  { args: ["--metadata", '{"tags":["vat"]}'], ids: ["one"] },
  { args: ["--created-from", "2025-12-01T02:00", "--created-to", "2025-12-01 03:00"], ids: ["two"] },
  { args: ["--created-from", "2025-12-01T03:00+01:00", "--created-to", "1764558000000"], ids: ["two"] },
  { args: ["--created-to", "2025-12-01"], ids: [] },
  { args: ["--created-from", "2025-12"], ids: [LONG_ID, "two", "one"] },
  { args: ["--modified-from", "2026", "--modified-to", "9999-12-31"], ids: [LONG_ID, "two", "one"] },
])("$args", async ({ args, ids }) => {
  expect(await idsOf(...args)).toEqual(ids);
});

describe("pages", () => {
  test("follow one another by the cursor that the one before ends with", async () => {
    const first = await run(["--limit", "2"]);
    expect(first.stdout).toMatch(/^ID.*\n019ad920.*\ntwo .*\n$/);
    const [, cursor = ""] = /^There are more: add --cursor (\S+), or --all\.\n$/.exec(first.stderr) ?? [];
    const second = await run(["--limit", "2", "--cursor", cursor]);
    expect(second).toMatchObject({ stdout: expect.stringMatching(/^ID.*\none .*\n$/), stderr: "" });
    const { next } = JSON.parse((await run(["--limit", "2", "--json"])).stdout) as { next: string };
    expect(next).toBe(cursor);
    expect(await idsOf("--all", "--cursor", cursor)).toEqual(["one"]);
  });

  test("hold 50 sessions, and --all reads on to the end", async () => {
    await at.database.tenants.create({ slug: "many" });
    await at.admin.query(
      `insert into "${at.schema}".sessions (tenant_id, session_id, storage_version, created_at, modified_at, next_seq,
         message_count, total_input, total_output, total_cache_read, total_cache_write, total_tokens, total_cost_input,
         total_cost_output, total_cost_cache_read, total_cost_cache_write, total_cost, root_session_id)
       select "${at.schema}".tenant_id('many'), 's' || n, 1, n, n, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 's' || n
       from generate_series(1, 2500) as n`,
    );
    expect(await idsOf("--tenant", "many")).toHaveLength(50);
    const all = await idsOf("--tenant", "many", "--all");
    expect(all).toHaveLength(2500);
    expect(new Set(all).size).toBe(2500);
    const { stdout } = await run(["--tenant", "many", "--all"]);
    expect(stdout.match(/^s\d+ /gm)).toHaveLength(2500);
    expect(stdout.match(/^ID /gm)).toHaveLength(5);
  });

  test.each([
    { args: ["--cursor", "nonsense"], stderr: "with the same options, or leave out --cursor" },
    { args: ["--limit", "0"], stderr: "from 1 to 1000" },
    { args: ["--limit", "1001"], stderr: "from 1 to 1000" },
    { args: ["--all", "--limit", "5"], stderr: "cannot be used with" },
    { args: ["--sort", "size"], stderr: "created, modified, name" },
    { args: ["--created-from", "2026-02-30"], stderr: "a date such as" },
    { args: ["--created-from", "yesterday"], stderr: "a date such as" },
    { args: ["--metadata", "[]"], stderr: "Pass a JSON object" },
    { args: ["--metadata", JSON.stringify({ a: "x".repeat(20_000) })], stderr: "--metadata" },
  ])("$args.0 $args.1 ends with 2 and one line", async ({ args, stderr }) => {
    const finished = await run(args);
    expect(finished).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(stderr) });
    expect(finished.stderr).toMatch(/^error: .*\n$/);
  });
});

describe("a terminal", () => {
  test("of 80 columns has room for every row", async () => {
    const { stdout } = await run([], terminal(80));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the heads are bold
    const lines = stdout.replaceAll(/\u001b\[\d+m/g, "").split("\n");
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(lines[0]).toMatch(/^ID +NAME +DIRECTORY /);
    expect(lines[1]).toMatch(/^019ad920-7f40\S*… +\S.*… +…\S+ +2025-12-01 03:00 +1 +10,000 +\$1\.0000$/);
  });

  test("that is wide enough shortens nothing", async () => {
    const { stdout } = await run([], terminal(200));
    expect(stdout).toContain(LONG_ID);
  });
});

describe("cells that are too wide", () => {
  test("give way by rank, then from the widest, down to their minimum", () => {
    const rows = [["0123456789", "abcdefghij", "/one/two/three", "12"]];
    const columns = [{ min: 5, rank: 1 }, { min: 4 }, { min: 4, cut: "start" as const }, undefined];
    expect(fitted(rows, columns, 80)).toEqual(rows);
    expect(fitted(rows, columns, 34)).toEqual([["0123456789", "abcdefg…", "…o/three", "12"]]);
    expect(fitted(rows, columns, 22)).toEqual([["01234…", "abc…", "…ree", "12"]]);
    expect(fitted(rows, columns, 0)).toEqual([["0123…", "abc…", "…ree", "12"]]);
  });

  test("are measured as a terminal draws them", () => {
    expect(fitted([["日本語の名前", "e\u0301e\u0301e\u0301"]], [{ min: 1 }, undefined], 12)).toEqual([
      ["日本語…", "e\u0301e\u0301e\u0301"],
    ]);
  });
});
