import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { scratch } from "../archive/scratch.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand } from "./pi-sessions.ts";

const SAMPLES = new URL("../../examples/archives", import.meta.url).pathname;

let at: TestDatabase;

/** Runs the command on the test's database. */
const run = (...args: string[]) =>
  runCommand(["export", ...args, "--database-url", at.connectionString, "--schema", at.schema]);

beforeAll(async () => {
  at = await openTestDatabase();
  const repo = await at.database.repo("default");
  const session = await repo.create({ id: "a/1", cwd: "/srv", metadata: { userId: "u1" } }, context);
  const main = await session.createBranch("main", null, context);
  await main.appendMessage({ role: "user", content: "hello", timestamp: 1 }, context);
  await session.createBranch("side", null, context);
  await session.close(context);
  await (await repo.fork({ id: "a/1" }, { id: "b", scope: "tree" }, context)).close(context);
});
afterAll(() => at[Symbol.asyncDispose]());

const json = (text: string) => JSON.parse(text) as { files: { path: string; status: string }[] };

describe("export", () => {
  test("writes each session into a file that is named as pi names it", async () => {
    await using directory = await scratch();
    const out = join(directory.path, "new", "out");
    const { code, stdout } = await run("--format", "v4", "--all", out);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Exported 2 sessions \([\d,]+ bytes\) to .*, 0 failed\.\n/);
    const names = (await readdir(out)).toSorted();
    expect(names).toEqual([
      expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_a%2F1\.jsonl$/),
      expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_b\.jsonl$/),
    ]);
    const [header] = (await readFile(join(out, names[0] as string), "utf8")).split("\n");
    expect(JSON.parse(header ?? "")).toMatchObject({ v: 4, id: "a/1", cwd: "/srv" });
    expect(stdout).toContain("a%2F1.jsonl: the application's metadata\n");
  });

  test("says what a version 3 file has no room for, and names the parent's file", async () => {
    await using directory = await scratch();
    const { code, stdout } = await run("--format", "v3", "--json", "a/1", "b", directory.path);
    expect(code).toBe(0);
    const { files } = JSON.parse(stdout);
    expect(files).toMatchObject([
      { status: "exported", sessionId: "a/1", leftOut: { branches: 1, metadata: 1, parent: 0 } },
      { status: "exported", sessionId: "b", leftOut: { branches: 1, metadata: 1, parent: 0 } },
    ]);
    const [header] = (await readFile(files[1].path, "utf8")).split("\n");
    expect(JSON.parse(header ?? "").parentSession).toBe(files[0].path);
    const alone = await run("--format", "v3", "--json", "--force", "b", directory.path);
    expect(JSON.parse(alone.stdout).files).toMatchObject([{ leftOut: { parent: 1 } }]);
  });

  test("leaves a file that is there as it is, unless it is to be replaced", async () => {
    await using directory = await scratch();
    const [file] = json((await run("--format", "v4", "--json", "b", directory.path)).stdout).files;
    const path = file?.path as string;
    await writeFile(path, "mine");
    const refused = await run("--format", "v4", "--all", directory.path);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(/^Exported 1 session .*, 1 failed\.\n/);
    expect(refused.stdout).toContain("failed    b: ");
    expect(refused.stdout).toContain("there already: move it, or pass --force");
    expect(await readFile(path, "utf8")).toBe("mine");
    const forced = await run("--format", "v4", "--force", "--all", directory.path);
    expect(forced.code).toBe(0);
    expect(await readFile(path, "utf8")).toContain('"id":"b"');
    expect((await readdir(directory.path)).filter((name) => !name.endsWith(".jsonl"))).toEqual([]);
  });

  test("writes one session to standard output", async () => {
    const { code, stdout, stderr } = await run("--format", "v4", "a", "-");
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ kind: "header", id: "a/1" });
    expect(lines.length).toBeGreaterThan(3);
    expect(stderr).toBe("left out: the application's metadata\n");
  });

  test("goes on after a session that has no original, and ends with 1", async () => {
    await using directory = await scratch();
    await runCommand(["import", SAMPLES, "--database-url", at.connectionString, "--schema", at.schema]);
    const { code, stdout } = await run("--format", "original", "--all", directory.path);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^Exported 4 sessions .*, 2 failed\.\n/);
    expect(stdout).toMatch(/failed {4}b: The session "b" has no original file/);
    const samples = (await readdir(SAMPLES, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
    const bytes = (paths: string[]) => Promise.all(paths.map((path) => readFile(path, "utf8")));
    const written = (await readdir(directory.path)).map((name) => join(directory.path, name));
    expect((await bytes(written)).toSorted()).toEqual(
      (await bytes(samples.map((name) => join(SAMPLES, name)))).toSorted(),
    );
  });

  test("refuses what cannot be written, and leaves nothing behind", async () => {
    await using directory = await scratch();
    const file = await directory.write("file", "");
    const { code, stdout } = await run("--format", "v4", "b", join(file, "out"));
    expect(code).toBe(1);
    expect(stdout).toMatch(/failed {4}b: .*it cannot be written \(ENOTDIR\)/);
    const [there] = json((await run("--format", "v4", "--json", "b", directory.path)).stdout).files;
    const path = there?.path as string;
    await mkdir(join(directory.path, "taken"));
    await mkdir(join(directory.path, "taken", path.slice(directory.path.length)));
    const blocked = await run("--format", "v4", "--force", "b", join(directory.path, "taken"));
    expect(blocked.code).toBe(1);
    expect(await readdir(join(directory.path, "taken"))).toHaveLength(1);
  });

  test.each([
    [["--format", "v4", "out"], "Pass ids or --all, and then a directory."],
    [["--format", "v4", "--all", "a", "out"], "Pass either ids or --all, then one directory."],
    [["--format", "v4", "--all", "-"], "Standard output takes the file of one session"],
    [["--format", "v4", "--json", "b", "-"], "Standard output takes the file of one session"],
    [["--format", "v5", "b", "out"], "Allowed choices are original, v3, v4."],
    [["--all", "out"], "required option '--format <format>' not specified"],
  ])("calls the command line %j wrong", async (args, message) => {
    const { code, stderr } = await run(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});
