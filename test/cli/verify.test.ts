import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { branchTip, BACKGROUND_CONTEXT as context, sessionName, setValue } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { runCommand } from "./pi-sessions.ts";

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const asApplication = (...args: string[]) =>
  runCommand(["verify", ...args, "--database-url", at.connectionString, "--schema", at.schema]);
const asOwner = (...args: string[]) =>
  runCommand(["verify", ...args, "--database-url", at.ownerConnectionString, "--schema", at.schema]);

/** A tenant with two sessions of two messages each. */
async function fill(slug: string): Promise<void> {
  await at.database.tenants.create({ slug });
  const repo = await at.database.repo(slug);
  for (const id of ["one", "two \u001b[2J\n."]) {
    const session = await repo.create({ id }, context);
    const main = await session.createBranch("main", null, context);
    await main.appendMessage({ role: "user", content: "a secret", timestamp: 1 }, context);
    await main.appendMessage({ role: "user", content: "another", timestamp: 2 }, context);
    await session.mutate(
      (mutator) => mutator.commit([setValue(sessionName, "a secret name")], context),
      context,
    );
    await session.close(context);
  }
}

/** As every command prints JSON. */
const formatted = (data: unknown) => `${JSON.stringify(data, null, 2)}\n`;

const damage = (slug: string, change: string, table = "sessions") =>
  at.admin.query(
    `update "${at.schema}".${table} set ${change} where tenant_id = "${at.schema}".tenant_id($1)`,
    [slug],
  );

test("a healthy tenant ends with 0 and one line", async () => {
  await fill("healthy");
  expect(await asApplication("--tenant", "healthy")).toEqual({
    code: 0,
    signal: null,
    stdout: "Verified 2 sessions: all is well.\n",
    stderr: "",
  });
  for (const id of ["one", "on"]) {
    expect((await asApplication("--tenant", "healthy", "--session", id)).stdout).toBe(
      "Verified 1 session: all is well.\n",
    );
  }
  const { code, stdout } = await asApplication("--tenant", "healthy", "--json", "--repair");
  expect(code).toBe(0);
  expect(stdout).toBe(formatted({ found: [], report: { sessions: 2, findings: 0, repaired: 0 } }));
});

describe("what is wrong", () => {
  test("is a table and a summary, without what was said, and ends with 1", async () => {
    await fill("broken");
    await damage("broken", "message_count = 5, name = null, first_message = 'x'");
    const session = await (await at.database.repo("broken")).open({ id: "one" }, context);
    await session.setValue(branchTip("main"), "nowhere", context);
    const { code, stdout, stderr } = await asApplication("--tenant", "broken");
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^CHECK +SESSION +WHAT$/),
      expect.stringMatching(/^branch_tip +one +1 branch whose tip is no entry$/),
      expect.stringMatching(/^message_count +one +message_count is 5 and should be 2$/),
      expect.stringMatching(/^session_name +one +name is not the session's name$/),
      expect.stringMatching(/^first_message +one +first_message is not the start of /),
      expect.stringMatching(/^message_count +two \ufffd\[2J \. +message_count is 5 and should be 2$/),
      expect.stringMatching(/^session_name +two /),
      expect.stringMatching(/^first_message +two /),
      "",
      "Verified 2 sessions: 7 findings, 0 repaired.",
      "--repair rebuilds 6 of them.",
      "1 cannot be rebuilt: restore those sessions from a backup.",
      "",
    ]);
    expect(stdout).not.toMatch(/secret|another/);
  });

  test("is repaired when that is asked for, which ends with 1 once more", async () => {
    await fill("repaired");
    await damage("repaired", "message_count = 5, total_cost = 1");
    const first = await asApplication("--tenant", "repaired", "--repair", "--session", "one");
    expect(first).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(
        /message_count is 5 and should be 2 \(repaired\)\n(?:.|\n)*2 findings, 2 repaired\.\n$/,
      ),
    });
    const second = await asApplication("--tenant", "repaired", "--repair", "--json");
    expect(second.code).toBe(1);
    expect(second.stdout).toBe(formatted(JSON.parse(second.stdout)));
    expect(JSON.parse(second.stdout)).toMatchObject({
      found: [
        { check: "message_count", sessionId: "two \u001b[2J\n.", repairable: true, repaired: true },
        { check: "usage_totals", what: "not the sum of the ledger: total_cost", count: 1 },
      ],
      report: { sessions: 2, findings: 2, repaired: 2 },
    });
    expect((await asApplication("--tenant", "repaired")).code).toBe(0);
  });

  test("with the application's role, where that may not repair, ends with 3 and what to do", async () => {
    await fill("owned");
    await damage("owned", "run = seq", "entries");
    const refused = await asApplication("--tenant", "owned", "--repair");
    expect(refused).toMatchObject({ code: 3, stdout: "" });
    expect(refused.stderr).toMatch(/^error: The database role may not do this .* role that owns the schema/);
    expect((await asOwner("--tenant", "owned", "--repair")).stdout).toContain("2 findings, 2 repaired.");
    expect((await asApplication("--tenant", "owned")).code).toBe(0);
  });

  test("in more sessions than a table has rows is told in several tables", async () => {
    const slug = "many";
    await fill(slug);
    await at.admin.query(
      `insert into "${at.schema}".sessions (tenant_id, session_id, storage_version, created_at, modified_at, next_seq,
         message_count, total_input, total_output, total_cache_read, total_cache_write, total_tokens, total_cost_input,
         total_cost_output, total_cost_cache_read, total_cost_cache_write, total_cost, root_session_id)
       select "${at.schema}".tenant_id($1), 's' || n, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 's' || n
       from generate_series(1, 600) as n`,
      [slug],
    );
    const { code, stdout } = await asApplication("--tenant", slug);
    expect(code).toBe(1);
    expect(stdout.match(/^CHECK/gm)).toHaveLength(2);
    expect(stdout.match(/^message_count +s/gm)).toHaveLength(600);
    expect(stdout).toContain("Verified 602 sessions: 600 findings, 0 repaired.");
  });
});

test.each([
  { args: ["--tenant", "nobody"], code: 1, stderr: 'There is no tenant "nobody"' },
  { args: ["--session", "nobody"], code: 1, stderr: 'There is no session "nobody"' },
  { args: ["--session", "nobody", "--json"], code: 1, stderr: 'There is no session "nobody"' },
  { args: ["--session", ""], code: 2, stderr: "is empty" },
  { args: ["--nonsense"], code: 2, stderr: "--nonsense" },
])("$args ends with $code", async ({ args, code, stderr }) => {
  expect(await asApplication(...args)).toMatchObject({
    code,
    stdout: "",
    stderr: expect.stringContaining(stderr),
  });
});

test("--help has examples and the exit codes", async () => {
  const { code, stdout } = await runCommand(["verify", "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/Examples:\n {2}pi-sessions verify\n/);
  expect(stdout).toContain("Exit codes:");
});
