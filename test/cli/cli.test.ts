import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type AgentMessage,
  buildSessionContext,
  BACKGROUND_CONTEXT as context,
  emptyUsage,
  insertUsage,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand, startCommand } from "./pi-sessions.ts";

const SAMPLES = new URL("../../examples/archives", import.meta.url).pathname;
const COMMANDS = [
  "migrate",
  "import",
  "export",
  "list",
  "show",
  "usage",
  "delete",
  "tenant",
  "doctor",
  "quickstart",
  "serve",
];

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be printed
const OBEYED_BY_TERMINALS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

let at: TestDatabase;
let id: string;
let messages: AgentMessage[];

/** Runs a command on the test's database. */
const run = (...args: string[]) =>
  runCommand([...args, "--database-url", at.connectionString, "--schema", at.schema]);

beforeAll(async () => {
  at = await openTestDatabase();
  const session = await (await at.database.repo("default")).create({ id: "abc-1", cwd: "/srv/app" }, context);
  id = session.metadata.id;
  const main = await session.createBranch("main", null, context);
  await main.appendMessage({ role: "user", content: "first \u001b[2J\u202e line", timestamp: 1 }, context);
  const fork = await main.appendMessage({ role: "user", content: "second", timestamp: 1 }, context);
  await main.appendMessage({ role: "user", content: "on main", timestamp: 1 }, context);
  const side = await session.createBranch("side", fork, context);
  await side.appendMessage({ role: "user", content: "on side", timestamp: 1 }, context);
  await session.setLabel(fork, "the fork", context);
  const usage = { ...emptyUsage(), input: 1000, totalTokens: 1000 };
  const answer = await main.appendMessage(
    {
      role: "assistant",
      content: [{ type: "text", text: "answer" }],
      api: "api",
      provider: "acme",
      model: "model-1",
      usage,
      stopReason: "stop",
      timestamp: 1,
    },
    context,
  );
  for (let row = 0; row < 10; row++) {
    const spent = { ...usage, cost: { ...usage.cost, total: 0.1 } };
    await session.mutate(
      (mutator) =>
        mutator.commit(
          [insertUsage({ id: `u${row}`, usage: spent, entryId: answer, adjustment: false })],
          context,
        ),
      context,
    );
  }
  messages = await buildSessionContext(
    await main.findEntries({ order: "oldestFirst" }, context),
    undefined,
    context,
  );
  await session.close(context);
});
afterAll(() => at[Symbol.asyncDispose]());

describe("show", () => {
  test("draws the tree with tips, labels and both ways on from a fork", async () => {
    const { code, stdout } = await run("show", "abc");
    expect(code).toBe(0);
    const tree = stdout.split("\n").slice(2, -1);
    expect(tree.map((line) => line.replace(/…\w{8} {2}[\d: -]{16} {2}/, ""))).toEqual([
      expect.stringMatching(/^user: {2}first .* line$/),
      'user:  second  "the fork"',
      "├─ user:  on main",
      "│  assistant (model-1):  answer  [main]",
      "└─ user:  on side  [side]",
    ]);
  });

  test("lets nothing in a message act on the terminal", async () => {
    for (const args of [["show", id], ["show", id, "--context"], ["list"]]) {
      const { stdout } = await run(...args);
      expect(stdout).toContain("first");
      expect(stdout).not.toMatch(OBEYED_BY_TERMINALS);
    }
  });

  test("lets nothing else that is stored act on the terminal: ids, models, custom types, JSON", async () => {
    await at.database.tenants.create({ slug: "hostile" });
    const repo = await at.database.repo("hostile");
    const evil = "x\u001b[2J\u009b31m\u202e";
    const session = await repo.create({ id: evil, cwd: evil }, context);
    const main = await session.createBranch("main", null, context);
    const answer = { api: "api", usage: emptyUsage(), stopReason: "stop" as const, timestamp: 1 };
    await main.appendMessage(
      {
        role: "assistant",
        content: [{ type: "text", text: evil }],
        provider: evil,
        model: `${evil}\n!`,
        ...answer,
      },
      context,
    );
    await main.appendCustomEntry(evil, { [evil]: evil }, context);
    const messages = await buildSessionContext(
      await main.findEntries({ order: "oldestFirst" }, context),
      undefined,
      context,
    );
    await session.close(context);
    for (const args of [
      ["list"],
      ["list", "--json"],
      ["show", "x"],
      ["show", "x", "--json"],
      ["show", "x", "--context"],
      ["usage"],
      ["doctor"],
    ]) {
      const { code, stdout } = await run(...args, "--tenant", "hostile");
      expect({ args, code }).toEqual({ args, code: 0 });
      expect(stdout).not.toMatch(OBEYED_BY_TERMINALS);
    }
    const { stdout } = await run("show", "x", "--context", "--json", "--tenant", "hostile");
    expect(stdout).not.toMatch(OBEYED_BY_TERMINALS);
    expect(JSON.parse(stdout)).toEqual(messages);
  });

  test("shows the path of one branch", async () => {
    const { stdout } = await run("show", id, "--branch", "side");
    expect(stdout).toContain("on side");
    expect(stdout).not.toContain("on main");
    expect(stdout.split("\n")[0]).toMatch(
      /^abc-1 {2}created \d{4}-\d\d-\d\d \d\d:\d\d UTC {2}5 messages {2}10,000 tokens {2}\$1\.0000 in the whole session$/,
    );
  });

  test("says where a session comes from and what its application keeps with it", async () => {
    const repo = await at.database.repo("default");
    const metadata = { note: "\u009b31m", userId: "u1" };
    const fork = await repo.create({ id: "fork", parentSessionId: id, metadata }, context);
    await fork.close(context);
    const { stdout } = await run("show", "fork");
    await repo.delete(fork.metadata, context);
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^fork {2}created .* UTC {2}0 messages {2}0 tokens {2}\$0\.0000$/),
      "parent abc-1",
      'metadata {"note":"\ufffd31m","userId":"u1"}',
      "",
      "",
    ]);
  });

  test("prints the messages that a model would get", async () => {
    expect(JSON.parse((await run("show", id, "--context", "--json")).stdout)).toEqual(messages);
    expect((await run("show", id, "--context")).stdout).toContain("assistant (model-1)\nanswer\n");
  });

  test("prints how much a compaction replaced with separators", async () => {
    const repo = await at.database.repo("default");
    const session = await repo.create({ id: "compacted" }, context);
    const main = await session.createBranch("main", null, context);
    await main.appendMessage(
      { role: "compactionSummary", summary: "all of it", tokensBefore: 41_850, timestamp: 1 },
      context,
    );
    await session.close(context);
    const { stdout } = await run("show", "compacted", "--context");
    await repo.delete(session.metadata, context);
    expect(stdout).toContain("summary of 41,850 tokens\nall of it\n");
  });

  test("shows a chain of 20,000 entries", async () => {
    const repo = await at.database.repo("default");
    const session = await repo.create({ id: "long" }, context);
    await session.mutate(
      (mutator) =>
        mutator.commit(
          Array.from({ length: 20_000 }, (_, index) => ({
            kind: "entry" as const,
            entry: {
              id: `e${index}`,
              parentId: index === 0 ? null : `e${index - 1}`,
              type: "custom" as const,
              customType: "step",
            },
          })),
          context,
        ),
      context,
    );
    await session.close(context);
    const { code, stdout } = await run("show", "long");
    await repo.delete(session.metadata, context);
    expect(code).toBe(0);
    expect(stdout.match(/ step:/g)).toHaveLength(20_000);
  });

  test("says which ids begin alike, and that an id is unknown", async () => {
    const repo = await at.database.repo("default");
    const twin = await repo.create({ id: "abc-2" }, context);
    await twin.close(context);
    const ambiguous = await run("show", "abc");
    await repo.delete(twin.metadata, context);
    expect(ambiguous).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("abc-1") });
    expect(await run("show", "nowhere")).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("nowhere"),
    });
    expect(await run("show", id, "--branch", "none")).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /"none".*: take one of those that `pi-sessions show` puts in brackets\.\n$/,
      ),
    });
  });
});

test("usage says so where there is none", async () => {
  await at.database.tenants.create({ slug: "unused" });
  expect((await run("usage", "--tenant", "unused")).stdout).toBe("No usage.\n");
});

test("usage sums money exactly, by provider and model", async () => {
  const { by, rows } = JSON.parse((await run("usage", "--json")).stdout);
  expect(by).toEqual(["provider", "model"]);
  expect(rows).toMatchObject([
    { group: { provider: "acme", model: "model-1" }, calls: 10, input: 10_000, cost: { total: "1" } },
  ]);
  expect((await run("usage")).stdout).toMatch(/acme +model-1 +10 +10,000 .*\$1\.0000\n$/);
});

describe("import", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "pi-sessions-"));
    const header = {
      type: "session",
      version: 3,
      id: "x",
      timestamp: "2025-12-01T09:30:00.000Z",
      cwd: "/srv/app",
    };
    await writeFile(join(directory, "broken.jsonl"), `${JSON.stringify(header)}\n{"type":"message","id":\n`);
    await writeFile(join(directory, "other.jsonl"), '{"hello":"world"}\n');
  });
  afterAll(() => rm(directory, { recursive: true }));

  test("tells of each file that was not imported, imports the rest, and exits with 1", async () => {
    await at.database.tenants.create({ slug: "mixed" });
    const { code, stdout, stderr } = await run("import", "--tenant", "mixed", SAMPLES, directory);
    expect(code).toBe(1);
    expect(stderr).toBe(""); // no progress on a pipe
    expect(stdout).toMatch(/^Imported 4 sessions .* 0 unchanged, 1 skipped, 1 failed\.\n/);
    expect(stdout).toMatch(/failed {3}.*broken\.jsonl:2: /);
    expect(stdout).toMatch(/skipped {2}.*other\.jsonl: /);
  });

  test("says that there was nothing to import in a directory without archives", async () => {
    const empty = await mkdtemp(join(tmpdir(), "pi-sessions-"));
    try {
      const { code, stdout } = await run("import", empty);
      expect({ code, lines: stdout.split("\n") }).toEqual({
        code: 0,
        lines: [
          expect.stringContaining("Imported 0 sessions"),
          "No archive was found: directories are searched for *.jsonl files, at any depth.",
          "",
        ],
      });
    } finally {
      await rm(empty, { recursive: true });
    }
  });

  test("says how to import a file that has changed since", async () => {
    await at.database.tenants.create({ slug: "changed" });
    const copy = await mkdtemp(join(tmpdir(), "pi-sessions-"));
    const file = join(copy, "changed.jsonl");
    const header = {
      type: "session",
      version: 3,
      id: "changed",
      timestamp: "2025-12-01T09:30:00.000Z",
      cwd: "/",
    };
    try {
      await writeFile(file, `${JSON.stringify(header)}\n`);
      expect((await run("import", "--tenant", "changed", file)).code).toBe(0);
      await writeFile(file, `${JSON.stringify({ ...header, cwd: "/srv" })}\n`);
      for (const json of [[], ["--json"]]) {
        const { code, stdout } = await run("import", "--tenant", "changed", file, ...json);
        expect(code).toBe(1);
        expect(stdout).toContain("delete it with `pi-sessions delete`, or import into another --tenant");
      }
    } finally {
      await rm(copy, { recursive: true });
    }
  });

  test("does nothing the second time, nor in a dry run", async () => {
    await at.database.tenants.create({ slug: "twice" });
    const dry = await run("import", "--tenant", "twice", "--dry-run", "--json", SAMPLES);
    const events = dry.stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events.filter(({ event }) => event === "file")).toHaveLength(4);
    expect(events.at(-1)).toMatchObject({ event: "summary", dryRun: true, imported: 0, wouldImport: 4 });
    expect(JSON.parse((await run("list", "--tenant", "twice", "--json")).stdout)).toEqual({
      sessions: [],
      next: null,
    });
    expect((await run("import", "--tenant", "twice", SAMPLES)).stdout).toContain("Imported 4 sessions");
    const before = (await run("list", "--tenant", "twice", "--json")).stdout;
    expect((await run("import", "--tenant", "twice", SAMPLES)).stdout).toContain("Imported 0 sessions");
    expect((await run("list", "--tenant", "twice", "--json")).stdout).toBe(before);
  });
});

test("quickstart migrates, imports and shows, and the second run changes nothing", async () => {
  await using fresh = await openTestDatabase({ migrated: false });
  const quickstart = () =>
    runCommand(["quickstart", "--database-url", fresh.connectionString, "--schema", fresh.schema, SAMPLES]);
  const first = await quickstart();
  const second = await quickstart();
  expect(first.code).toBe(0);
  expect(first.stdout).toContain("Imported 4 sessions");
  expect(first.stdout).not.toContain(new URL(fresh.connectionString).host); // nor the password before it
  expect(second.stdout).toContain("Imported 0 sessions");
  const shown = (stdout: string) => stdout.slice(0, stdout.indexOf("Import"));
  expect(shown(second.stdout)).toBe(shown(first.stdout));
  expect(shown(first.stdout)).toMatch(/Sessions\n[\s\S]*Usage by model\n[\s\S]*claude/);
});

describe("migrate", () => {
  test("applies, and then has nothing to do", async () => {
    await using fresh = await openTestDatabase({ migrated: false });
    const migrate = (...args: string[]) =>
      runCommand(["migrate", ...args, "--database-url", fresh.connectionString, "--schema", fresh.schema]);
    expect((await migrate("--status")).code).toBe(1);
    expect((await migrate()).stdout).toMatch(/^Applied 0001_sessions/);
    expect((await migrate()).stdout).toBe("The schema is up to date.\n");
    expect((await migrate("--status")).code).toBe(0);
  });

  test("prints SQL that makes a schema it then accepts, without a database", async () => {
    await using fresh = await openTestDatabase({ migrated: false });
    const { code, stdout } = await runCommand(["migrate", "--print", "--schema", fresh.schema]);
    expect(code).toBe(0);
    await fresh.admin.query(stdout);
    const address = ["--database-url", fresh.connectionString, "--schema", fresh.schema];
    expect(await runCommand(["migrate", "--status", ...address])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("pending: none"),
    });
    expect(await fresh.database.migrate()).toEqual([]);
  });

  test("prints SQL or tells the status, and not both", async () => {
    for (const other of ["--status", "--json"]) {
      expect(await runCommand(["migrate", "--print", other])).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(`'--print' cannot be used with option '${other}'`),
      });
    }
  });

  test("has no defaults that its help would have to explain", async () => {
    expect((await runCommand(["migrate", "--help"])).stdout).not.toContain("[]");
  });

  test("is what the other commands ask for where it was not run", async () => {
    await using fresh = await openTestDatabase({ migrated: false });
    for (const args of [["list"], ["show", "x"], ["usage"], ["import", SAMPLES]]) {
      expect(
        await runCommand([...args, "--database-url", fresh.connectionString, "--schema", fresh.schema]),
      ).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining("run `pi-sessions migrate`") });
    }
  });
});

describe("doctor", () => {
  test("finds nothing wrong with a good database, and leaves nothing in it", async () => {
    const before = (await run("list", "--json")).stdout;
    const { code, stdout } = await run("doctor");
    expect(code).toBe(0);
    expect(stdout).toContain("All is well.");
    expect(stdout).toContain("sessions: 1, the newest is abc-1");
    expect((await run("list", "--json")).stdout).toBe(before);
  });

  test("leaves nothing behind with a role that could not take it back", async () => {
    await at.database.tenants.create({ slug: "guarded" });
    const role = `insert_${at.schema}`;
    const url = new URL(at.connectionString);
    url.username = role;
    url.password = "weak";
    await at.admin.query(`create role ${role} login password 'weak'`);
    try {
      await at.admin.query(`grant usage on schema "${at.schema}" to ${role}`);
      await at.admin.query(`grant select, insert, update on all tables in schema "${at.schema}" to ${role}`);
      const { code, stdout } = await runCommand([
        ...["doctor", "--tenant", "guarded", "--schema", at.schema],
        ...["--database-url", url.href],
      ]);
      expect({ code, stdout }).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/writing +FAILED .*have its owner grant the rights/),
      });
      expect(await (await at.database.repo("guarded")).list(undefined, context)).toEqual([]);
    } finally {
      await at.admin.query(`drop owned by ${role}; drop role ${role}`);
    }
  });

  test("names the check that failed and what to do", async () => {
    await using fresh = await openTestDatabase({ migrated: false });
    const unmigrated = await runCommand([
      "doctor",
      "--database-url",
      fresh.connectionString,
      "--schema",
      fresh.schema,
    ]);
    expect(unmigrated).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/FAILED .*pi-sessions migrate/),
    });
    const unreachable = await runCommand([
      "doctor",
      "--json",
      "--database-url",
      "postgresql://u:secret@127.0.0.1:1/x",
    ]);
    expect(unreachable.code).toBe(3);
    expect(JSON.parse(unreachable.stdout)).toMatchObject([{ ok: true }, { check: "connection", ok: false }]);
    expect(unreachable.stdout).not.toContain("secret");
  });
});

test.each(COMMANDS)("%s --help has examples and the exit codes", async (command) => {
  const { code, stdout } = await runCommand([command, "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/Examples:\n {2}pi-sessions /);
  expect(stdout).toContain("Exit codes:");
});

test.each([
  { args: ["list", "--database-url", "postgresql://127.0.0.1:1/x"], code: 3 },
  { args: ["list", "--schema", 'a"b', "--database-url", "postgresql://127.0.0.1:1/x"], code: 2 },
  { args: ["list", "--database-url", "mysql://127.0.0.1:1/x"], code: 2 },
  { args: ["nonsense"], code: 2 },
  { args: ["show"], code: 2 },
  { args: ["list", "--nonsense"], code: 2 },
])("$args.0 with bad input ends with $code and one line on standard error", async ({ args, code }) => {
  const finished = await runCommand(args);
  expect(finished).toMatchObject({ code, stdout: "" });
  expect(finished.stderr).toMatch(/^error: .+\n$/);
});

test("DATABASE_URL is used where no option names the database, and an unknown tenant is an error", async () => {
  const env = { DATABASE_URL: at.connectionString };
  expect((await runCommand(["list", "--schema", at.schema], env)).stdout).toContain(id);
  const finished = await runCommand(["list", "--schema", at.schema, "--tenant", "nobody"], env);
  expect(finished).toMatchObject({ code: 1, stderr: expect.stringContaining("nobody") });
});

describe("a reader that stops early", () => {
  test("ends the command without a word", async () => {
    const { process: child, firstLine, finished } = startCommand(["migrate", "--print"]);
    child.stdout.once("data", () => child.stdout.destroy());
    await firstLine;
    expect(await finished).toMatchObject({ code: 0, signal: null, stderr: "" });
  });

  test("of the messages does not change the exit code", async () => {
    const { process: child, finished } = startCommand([
      "list",
      "--database-url",
      "postgresql://127.0.0.1:1/x",
    ]);
    child.stderr.destroy();
    expect(await finished).toMatchObject({ code: 3 });
  });
});
