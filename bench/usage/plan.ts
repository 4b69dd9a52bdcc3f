import { Kysely } from "kysely";
import pg from "pg";
import { SchemaDialect } from "../../src/postgres/dialect.ts";
import type { DB } from "../../src/postgres/schema.generated.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { type Question, reportStatement } from "../../src/postgres/usage-statement.ts";

const SCHEMA = "pi_sessions";

/** How the server carries out a report of November, planned as it is when it is sent. Without what it never came to. */
export async function planOf(
  connectionString: string,
  { tenant, timeZone }: { tenant?: string; timeZone: string },
): Promise<string> {
  const pool = new pg.Pool({ connectionString, max: 1 });
  const client = await pool.connect();
  try {
    const db = new Kysely<DB>({ dialect: new SchemaDialect(pool as never, SCHEMA) }).withSchema(SCHEMA);
    const { sql, parameters } = reportStatement({ db, schema: SCHEMA }, questionOf(tenant, timeZone)).compile(
      db,
    );
    await client.query(
      "begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off",
    );
    await client.query("set local jit = off");
    if (tenant !== undefined)
      await client.query(`set local pi_sessions.tenant = '${tenantOf(tenant).tenantId}'`);
    await client.query(`prepare report as ${sql}`);
    const values = parameters.map((value) => client.escapeLiteral(String(value))).join(", ");
    await client.query(`execute report(${values})`); // warm
    const { rows } = await client.query(`explain (analyze, costs off, buffers) execute report(${values})`);
    const lines: string[] = rows.map((row) => row["QUERY PLAN"]);
    return lines
      .filter((line) => !/never executed|^ *(Storage|Sort Method|Index Searches|InitPlan)/.test(line))
      .join("\n");
  } finally {
    client.release();
    await pool.end();
  }
}

function questionOf(slug: string | undefined, timeZone: string): Question {
  return {
    tenant: slug === undefined ? undefined : tenantOf(slug),
    period: {
      from: { local: "2026-11-01 00:00" },
      to: { local: "2026-12-01 00:00" },
      timeZone,
      unit: slug === undefined ? undefined : "day",
      compare: false,
    },
    keys: slug === undefined ? ["tenant"] : ["model"],
    where: {},
    orderBy: undefined,
    top: undefined,
    cumulative: false,
  };
}
