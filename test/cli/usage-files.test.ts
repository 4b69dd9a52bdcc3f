import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { spend } from "../usage/spending.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;
let directory: string;

beforeAll(async () => {
  at = await openTestDatabase();
  await spend(at.database, "default", [
    { at: "2026-11-01T12:00Z", model: "large", cost: 3, input: 1, cacheRead: 3 },
    { at: "2026-11-03T12:00Z", model: "large", cost: 1 },
    { at: "2026-11-03T12:00Z", model: "small", cost: 0.5 },
  ]);
});
afterAll(() => at[Symbol.asyncDispose]());
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "pi-sessions-test-"));
  return () => rm(directory, { recursive: true });
});

const usage = (args: readonly string[], env: Record<string, string> = {}) =>
  runCommand(["usage", ...args, "--database-url", at.connectionString, "--schema", at.schema], {
    ...{ TERM: "xterm", LC_ALL: "", LC_CTYPE: "", LANG: "", ...env },
  });
const terminal = (columns: number) => ({
  NODE_OPTIONS: `--import=data:text/javascript,process.stdout.isTTY=true;process.stdout.columns=${columns}`,
});

describe("--chart", () => {
  test("draws cost by day and model, days without usage too", async () => {
    const { code, stdout, stderr } = await usage(["--chart"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      "Cost by day and model (UTC)",
      "",
      "  █ large  $4.00",
      "  ▓ small  $0.50",
      "",
      `2026-11-01  ${"█".repeat(61)}  $3.00`,
      `2026-11-02  ${" ".repeat(61)}  $0.00`,
      `2026-11-03  ${"█".repeat(20)}${"▓".repeat(11)}${" ".repeat(30)}  $1.50`,
      "",
    ]);
  });

  test("draws other columns, by other keys, as wide as the terminal", async () => {
    const { stdout } = await usage(["--chart", "calls", "--by", "month"], terminal(50));
    expect(stdout).toBe(`Calls by month (UTC)\n\n2026-11  ${"█".repeat(38)}  3\n`);
    expect((await usage(["--chart", "cacheHitRatio"])).stdout).toMatch(/^2026-11-01 +█+ +75\.0 %$/m);
  });

  test.each([
    ["a terminal that shows nothing else", { TERM: "dumb" }],
    ["a locale without Unicode", { LANG: "C" }],
  ])("is ASCII for %s", async (_, env) => {
    expect((await usage(["--chart"], env)).stdout).toMatch(/^2026-11-03 {2}#{20}={11} /m);
    expect((await usage(["--chart"], { ...env, ...terminal(60) })).stdout).toMatch(/^[ -~\n]*$/);
  });

  test("needs a unit of time", async () => {
    const { code, stderr } = await usage(["--chart", "--by", "model"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: "error: The option --by cannot be model: a chart takes one of hour, day, week, month.\n",
    });
  });
});

describe("--html and --parquet", () => {
  test("write a page that shows what was asked for", async () => {
    const path = join(directory, "usage.html");
    const { code, stdout, stderr } = await usage(["--html", path, "--from", "2026-11", "--to", "2026-12"]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "", stderr: `Wrote ${path}.\n` });
    const page = await readFile(path, "utf8");
    expect(page).toContain("<title>Usage of default: 1 Nov 2026 – 30 Nov 2026</title>");
    expect(page).toContain("$4.50");
    expect(await readdir(directory)).toEqual(["usage.html"]);
  });

  test("write a Parquet file of the report", async () => {
    const path = join(directory, "usage.parquet");
    const { code, stdout, stderr } = await usage([
      "--parquet",
      path,
      "--by",
      "day",
      "--where",
      "model=large",
    ]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "", stderr: `Wrote ${path}.\n` });
    const { buffer } = Uint8Array.from(await readFile(path));
    expect(await parquetReadObjects({ file: buffer, columns: ["day", "calls"] })).toEqual([
      { day: new Date("2026-11-01"), calls: 1n },
      { day: new Date("2026-11-03"), calls: 1n },
    ]);
  });

  test.each(["--html", "--parquet"])(
    "%s replaces no file without --force, and leaves none half written",
    async (way) => {
      const path = join(directory, "precious");
      await writeFile(path, "precious");
      const { code, stderr } = await usage([way, path]);
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: `error: ${path} exists: name another file, or replace it with --force.\n`,
      });
      expect(await readFile(path, "utf8")).toBe("precious");

      expect((await usage([way, path, "--force", "--by", "nothing"])).code).toBe(2);
      expect(await readFile(path, "utf8")).toBe("precious");

      expect((await usage([way, path, "--force"])).code).toBe(0);
      expect(await readFile(path, "utf8")).not.toBe("precious");
      expect(await readdir(directory)).toEqual(["precious"]);
    },
  );

  test("say why a file cannot be written", async () => {
    const path = join(directory, "missing", "usage.html");
    const { code, stderr } = await usage(["--html", path]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `error: ${path} cannot be written (ENOENT: no such file or directory): name another file.\n`,
    });
    expect((await usage(["--html", directory])).stderr).toBe(
      `error: ${directory} is a directory: name a file.\n`,
    );
  });
});

test.each([
  ["--chart", "--csv"],
  ["--html", "a", "--json"],
  ["--parquet", "a", "--html", "b"],
  ["--chart", "--budget"],
])("a report goes one way only: %s %s", async (...args) => {
  const { code, stderr } = await usage(args.filter((arg) => arg !== undefined));
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining("cannot be used with option"),
  });
});
