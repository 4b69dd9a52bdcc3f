import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { type Spent, spend } from "../usage/spending.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;

const LONG_ID = "019ad920-7f40-7c3e-8a11-5d0c9b7e2f64";

const ROWS: Spent[] = [
  { at: "2026-10-31T22:30Z", model: "large", session: LONG_ID, cost: 1 },
  { at: "2026-10-31T23:30Z", model: "large", session: LONG_ID, cost: 2.5, input: 100, cacheRead: 300 },
  { at: "2026-11-02T12:00Z", model: "large", session: "other", totalTokens: 1_000_000 },
  { at: "2026-11-02T12:00Z", model: "small", session: "other", cost: 0.25 },
  {
    at: "2026-11-03T12:00Z",
    model: "small",
    session: "other",
    cost: -0.05,
    adjustment: true,
    totalTokens: 0,
  },
];

beforeAll(async () => {
  at = await openTestDatabase();
  await at.database.usage.setDimensions("default", ["team"]);
  await spend(at.database, "default", ROWS, {
    [LONG_ID]: { cwd: "/srv/app", metadata: { team: "red" } },
    other: { metadata: { team: "blue" } },
  });
  await at.database.tenants.create({ slug: "acme" });
  await spend(at.database, "acme", [{ at: "2026-11-01T00:00Z", model: "large", cost: 10 }]);
});
afterAll(() => at[Symbol.asyncDispose]());

const usage = (args: readonly string[], env = {}) =>
  runCommand(["usage", ...args, "--database-url", at.connectionString, "--schema", at.schema], env);
const asOwner = (args: readonly string[]) =>
  runCommand(["usage", ...args, "--database-url", at.ownerConnectionString, "--schema", at.schema]);
const linesOf = ({ stdout }: { stdout: string }) =>
  stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(/ {2,}/));
const jsonOf = async (...args: string[]) => JSON.parse((await usage([...args, "--json"])).stdout);

test("is a table by provider and model, with unpriced calls, adjustments and a total", async () => {
  expect(linesOf(await usage([]))).toEqual([
    [
      ..."PROVIDER,MODEL,CALLS,UNPRICED,INPUT,OUTPUT,CACHE READ,CACHE WRITE,HITS,TOKENS".split(","),
      ..."PER CALL,ADJUSTED,COST".split(","),
    ],
    "p,large,3,1,100,0,300,0,75%,1;000;020,$1.1667,$0.0000,$3.5000"
      .split(",")
      .map((cell) => cell.replaceAll(";", ",")),
    "p,small,1,0,0,0,0,0,–,10,$0.2000,-$0.0500,$0.2000".split(","),
    "Total,4,1,100,0,300,0,75%,1;000;030,$0.9250,-$0.0500,$3.7000"
      .split(",")
      .map((cell) => cell.replaceAll(";", ",")),
  ]);
});

test("groups and filters by what was asked, in the time zone that was asked", async () => {
  const groups = async (...args: string[]) =>
    (await jsonOf(...args)).rows.map(({ group, calls }: { group: object; calls: number }) => [
      ...Object.values(group),
      calls,
    ]);
  expect(await groups("--by", "month", "--tz", "Europe/Berlin")).toEqual([
    ["2026-10", 1],
    ["2026-11", 3],
  ]);
  expect(await groups("--by", "day,dimension:team", "--from", "2026-11-01", "--to", "2026-11-03")).toEqual([
    ["2026-11-02", "blue", 2],
  ]);
  expect(await groups("--by", "model", "--by", "cwd", "--where", "dimension:team=red")).toEqual([
    ["large", "/srv/app", 2],
  ]);
  expect(await groups("--by", "model", "--where", "dimension:constructor=red")).toEqual([]);
  expect(await groups("--by", "model", "--where", "model=small", "--where", "model=nobody")).toEqual([
    ["small", 1],
  ]);
  expect(await groups("--by", "session", "--session", "019ad920")).toEqual([[LONG_ID, 2]]);
  expect(await groups("--by", "model", "--from", String(Date.parse("2026-11-01")))).toEqual([
    ["small", 1],
    ["large", 1],
  ]);
  expect(await groups("--by", "model", "--order", "cost:asc")).toEqual([
    ["small", 1],
    ["large", 3],
  ]);
  expect(await groups("--by", "session", "--order", "calls", "--top", "1")).toEqual([
    [LONG_ID, 2],
    [null, 2],
  ]);
});

test("JSON is what the library returns", async () => {
  const args = [
    "--by",
    "day,model",
    "--from",
    "2026-11",
    "--to",
    "2026-12",
    "--compare",
    "--cumulative",
    "--top",
    "1",
  ];
  const report = await at.database.usage.report(
    {
      tenant: "default",
      by: ["day", "model"],
      from: "2026-11",
      to: "2026-12",
      compare: true,
      cumulative: true,
      top: 1,
    },
    context,
  );
  expect(await jsonOf(...args)).toEqual(JSON.parse(JSON.stringify(report)));
});

test("a table names what remains, and shows the period before and the change", async () => {
  const lines = linesOf(
    await usage(["--by", "month,session", "--top", "1", "--from", "2026-11", "--to", "2026-12", "--compare"]),
  );
  expect(lines[0]?.slice(0, 2)).toEqual(["MONTH", "SESSION"]);
  expect(lines[0]?.slice(-3)).toEqual(["COST", "BEFORE", "CHANGE"]);
  expect(lines.slice(1).map((cells) => [...cells.slice(0, 2), ...cells.slice(-3)])).toEqual([
    ["2026-11", "other", "$0.2000", "$0.0000", "–"],
    ["2026-11", "all others", "$0.0000", "$3.5000", "-100%"],
    ["Total", "2", "$0.2000", "$3.5000", "-94%"],
  ]);
});

test("all tenants are for the owner", async () => {
  expect(
    linesOf(await asOwner(["--all-tenants", "--by", "tenant,model", "--top", "1"])).map((cells) =>
      cells.at(-1),
    ),
  ).toEqual(["COST", "$10.0000", "$3.7000", "$13.7000"]);
  expect(await usage(["--all-tenants"])).toMatchObject({
    code: 3,
    stdout: "",
    stderr: expect.stringContaining("one at a time"),
  });
});

describe("CSV", () => {
  test("has the keys and all sums of each row, without the total, and lines that end in CRLF", async () => {
    const { code, stdout } = await usage([
      "--by",
      "day,model",
      "--csv",
      "--to",
      "2026-11-01",
      "--tz",
      "Europe/Berlin",
    ]);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `${[
        "day,model,is_remainder,calls,input,output,cache_read,cache_write,cache_write_1h,reasoning,total_tokens,cost_input,cost_output,cost_cache_read,cost_cache_write,cost_total,adjustment_rows,adjustment_cost,cache_hit_ratio,cost_per_call,unpriced_calls",
        "2026-10-31,large,false,1,0,0,0,0,0,0,10,0,0,0,0,1,0,0,,1,0",
      ].join("\r\n")}\r\n`,
    );
  });

  test("of nothing has its heads only", async () => {
    const { stdout } = await usage(["--csv", "--to", "2000"]);
    expect(stdout).toMatch(/^provider,model,is_remainder,calls,[^\n]*\r\n$/);
  });
});

describe("what cannot be asked", () => {
  test.each<[string[], string]>([
    [["--by", "colour"], "--by"],
    [["--by", "day,week"], "--by"],
    [["--by", ""], "--by"],
    [["--from", "yesterday"], "--from"],
    [["--from", "2026-02", "--to", "2026-02"], "--to"],
    [["--tz", "Europe/Atlantis"], "--tz"],
    [["--where", "model"], "--where"],
    [["--where", "=x"], "--where"],
    [["--where", "colour=red"], "--where"],
    [["--where", "constructor=red"], "--where"],
    [["--where", "dimensions=red"], "--where"],
    [["--csv", "--budget"], "--budget"],
    [["--order", "beauty"], "--order"],
    [["--top", "0"], "--top"],
    [["--top", "many"], "--top"],
    [["--cumulative"], "--cumulative"],
    [["--compare"], "--compare"],
    [["--csv", "--json"], "--csv"],
    [["--session", "x", "--all-tenants"], "--session"],
  ])("%j ends with 2 and one line that names the option", async (args, option) => {
    const { code, stdout, stderr } = await usage(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^error: .*\n$/);
    expect(stderr).toContain(option);
  });

  test.each([
    [["--session", "nobody's"], "pi-sessions list"],
    [["--tenant", "nobody"], "pi-sessions tenant list"],
  ])("%j is not found", async (args, advice) => {
    expect(await usage(args)).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(advice) });
  });
});
