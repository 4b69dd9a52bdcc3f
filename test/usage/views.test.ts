import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, insertUsage } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

const VIEWS = ["usage_rows", "usage_hours", "usage_days", "usage_sessions"];

let at: TestDatabase;
let analystRole: string;

beforeAll(async () => {
  at = await openTestDatabase();
  analystRole = `${at.schema}_analyst`;
  await at.owner.migrate({ analystRoles: [analystRole] });
  for (const slug of ["acme", "beta"]) {
    await at.database.tenants.create({ slug });
    const session = await (await at.database.repo(slug)).create({ id: slug, cwd: `/${slug}` }, context);
    const usage = {
      input: 1,
      output: 2,
      cacheRead: 3,
      cacheWrite: 4,
      cacheWrite1h: 2,
      totalTokens: 10,
      cost: { input: 0.1, output: 0.2, cacheRead: 0.3, cacheWrite: 0.4, total: 1 },
    };
    const details = { provider: "p", model: slug, timestamp: 1_750_000_000_000 };
    const writes = [
      insertUsage({ id: "call", usage, adjustment: false, details }),
      insertUsage({ id: "credit", usage, adjustment: true, details }),
    ];
    await session.mutate((mutator) => mutator.commit(writes, context), context);
    // Nothing is summed as long as something else on the server is older.
    for (let rows = 0; rows === 0; ) rows = await at.database.usage.rollUp({ tenant: slug }, context);
  }
});
afterAll(async () => {
  await at.admin.query(`drop owned by ${analystRole}; drop role ${analystRole}`);
  await at[Symbol.asyncDispose]();
});

async function tenantsIn(view: string, role: string, tenant: string | undefined): Promise<string[]> {
  const client = new pg.Client(at.ownerConnectionString);
  await client.connect();
  try {
    await client.query(`set role ${role}`);
    if (tenant !== undefined)
      await client.query(`set pi_sessions.tenant = '${(await at.owner.tenants.get(tenant)).tenantId}'`);
    const { rows } = await client.query(`select tenant from "${at.schema}".${view} order by 1`);
    return [...new Set(rows.map((row) => row.tenant as string))];
  } finally {
    await client.end();
  }
}

test.each(VIEWS)("%s shows an application its own tenant, and an analyst all", async (view) => {
  expect(await tenantsIn(view, at.applicationRole, "acme")).toEqual(["acme"]);
  expect(await tenantsIn(view, at.applicationRole, undefined)).toEqual([]);
  expect(await tenantsIn(view, analystRole, undefined)).toEqual(["acme", "beta"]);
});

test("the views say what the ledger says", async () => {
  const rowsOf = async (text: string) => (await at.admin.query(text.replaceAll("$s", `"${at.schema}"`))).rows;
  const [call] = await rowsOf("select * from $s.usage_rows where tenant = 'acme' and not adjustment");
  expect(call).toMatchObject({
    session_id: "acme",
    usage_id: "call",
    spent_at: new Date(1_750_000_000_000),
    provider: "p",
    model: "acme",
    cwd: "/acme",
    cache_write_1h: "2",
    reasoning: "0",
    cost_total: "1",
  });
  expect(await rowsOf("select * from $s.usage_sessions where tenant = 'acme'")).toMatchObject([
    { calls: "1", total_tokens: "20", cost_total: "2", cost_adjustments: "1", cwd: "/acme" },
  ]);
  expect(
    await rowsOf(
      "select hour, adjustment, rows, input, cost_output from $s.usage_hours where tenant = 'beta' order by 2",
    ),
  ).toEqual(
    [false, true].map((adjustment) => ({
      hour: new Date("2025-06-15T15:00:00Z"),
      adjustment,
      rows: "1",
      input: "1",
      cost_output: "0.2",
    })),
  );
  expect(
    await rowsOf(
      "select day::text, sum(cost_total) as cost from $s.usage_days where tenant = 'beta' group by 1",
    ),
  ).toEqual([{ day: "2025-06-15", cost: "2" }]);
});
