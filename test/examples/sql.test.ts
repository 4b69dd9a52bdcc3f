/** Runs the SQL of the pages, each as the role that its paragraph names. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Client, type QueryResult } from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { BACKGROUND_CONTEXT as context, openDatabase } from "../../src/index.ts";
import { importAll } from "../support/import-all.ts";
import { blocksOf, PAGES, ROOT } from "./pages.ts";

const NAME = `docs_${randomBytes(6).toString("hex")}`;
const ROLES = ["superuser", "owner", "application role", "analyst role"] as const;
type Role = (typeof ROLES)[number];

const blocks = (await Promise.all(PAGES.map((page) => blocksOf(page, "sql")))).flat();

function roleOf(leadIn: string): Role | undefined {
  const named = ROLES.filter((role) =>
    new RegExp(`As (?:the|a) ${role}\\b`, "i").test(leadIn.replaceAll("\n", " ")),
  );
  return named.length === 1 ? named[0] : undefined;
}

function urlOf(role: Role): string {
  const url = new URL(inject("connectionString"));
  url.pathname = NAME;
  if (role !== "superuser") Object.assign(url, { username: userOf(role), password: "secret" });
  return url.href;
}

const userOf = (role: Role) => `${NAME}_${role.split(" ")[0]}`;

async function query(connectionString: string, text: string): Promise<QueryResult[]> {
  const client = new Client({ connectionString });
  await client.connect();
  return [await client.query(text).finally(() => client.end())].flat();
}

beforeAll(async () => {
  for (const role of ROLES.slice(1))
    await query(inject("connectionString"), `create role ${userOf(role)} login password 'secret'`);
  await query(inject("connectionString"), `create database ${NAME} owner ${userOf("owner")}`);
  const owner = await openDatabase({ connectionString: urlOf("owner") });
  try {
    await owner.migrate({
      applicationRoles: [userOf("application role")],
      analystRoles: [userOf("analyst role")],
    });
    const repo = await owner.repo("default");
    const report = await importAll(repo.importer, [join(ROOT, "examples/archives")], {}, context);
    expect(report).toMatchObject({ imported: 4, failed: 0 });
    // Nothing is summed as long as something else on the server is older.
    for (let rows = 0; rows === 0; ) rows = await owner.usage.rollUp({}, context);
  } finally {
    await owner.close();
  }
  // A table of the application's own.
  await query(urlOf("owner"), "create table orders (tenant_id uuid not null, item text)");
});
afterAll(async () => {
  await query(inject("connectionString"), `drop database if exists ${NAME} with (force)`);
  for (const role of ROLES.slice(1))
    await query(inject("connectionString"), `drop role if exists ${userOf(role)}`);
});

test("the pages have SQL, and say as which role to run it", () => {
  expect(blocks.length).toBeGreaterThan(0);
  expect(blocks.filter(({ leadIn }) => roleOf(leadIn) === undefined)).toEqual([]);
});

test.each(blocks)("the SQL in $page, line $line, runs and finds something", async ({ code, leadIn }) => {
  const results = await query(urlOf(roleOf(leadIn) as Role), code);
  for (const result of results.filter(({ command }) => command === "SELECT")) {
    expect(result.rows.length).toBeGreaterThan(0);
    expect(Object.values(result.rows[0])).not.toContain(null);
  }
});

test("the analyst role can join nothing but the ledger", async () => {
  await expect(query(urlOf("analyst role"), "select from pi_sessions.entries")).rejects.toThrow(
    "permission denied",
  );
});

test("the application role sees nothing until it names a tenant", async () => {
  const [result] = await query(urlOf("application role"), "select from pi_sessions.usage_ledger");
  expect(result?.rowCount).toBe(0);
});
