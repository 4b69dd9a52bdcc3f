import { Kysely } from "kysely";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, type PgStorage } from "../../src/index.ts";
import { branchStatement, type PathScan } from "../../src/postgres/branch-statement.ts";
import { SchemaDialect } from "../../src/postgres/dialect.ts";
import type { DB } from "../../src/postgres/schema.generated.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

const ENTRIES = 40_000;
const FORK_EVERY = 1_000;
/** Before the last 200 entries. */
const COMPACTION = ENTRIES - 200;

let at: TestDatabase;
let storage: PgStorage;
let application: Pool;
let kysely: Kysely<DB>;

beforeAll(async () => {
  at = await openTestDatabase();
  const repo = await at.database.repo("default");
  storage = await repo.createStorage({ id: "long" }, context);
  // A path through many runs, of which each but the last is also gone on with in another way.
  await at.admin.query(
    `insert into "${at.schema}".entries
       (tenant_id, session_id, entry_id, parent_id, seq, run, timestamp, type, custom_type, role, payload, payload_bytes)
     select $1::uuid, 'long', 'e' || n, case when n > 1 then 'e' || n - 1 end, n, (n - 1) / $2::int * $2::int + 1, 0,
       case when n = $4::int then 'compaction' else 'message' end, null, null, '{}'::json, 2
     from generate_series(1, $3::int) as n
     union all
     select $1::uuid, 'long', 'side' || n, 'e' || n, $3::int + n, n - $2::int + 1, 0, 'message', null, null, '{}'::json, 2
     from generate_series($2::int, $3::int - 1, $2::int) as n`,
    [tenantOf("default").tenantId, FORK_EVERY, ENTRIES, COMPACTION],
  );
  await at.admin.query(
    `insert into "${at.schema}".scalar_values (tenant_id, session_id, namespace, key, seq, value)
     values ($1, 'long', 'pi.branch.tip', 'main', 1, to_json($2::text))`,
    [tenantOf("default").tenantId, start],
  );
  await at.admin.query(`update "${at.schema}".sessions set next_seq = $1 where session_id = 'long'`, [
    2 * ENTRIES,
  ]);
  application = new Pool({ connectionString: at.connectionString, max: 1 });
  kysely = new Kysely<DB>({ dialect: new SchemaDialect(application as never, at.schema) }).withSchema(
    at.schema,
  );
});
afterAll(async () => {
  await application.end();
  await at[Symbol.asyncDispose]();
});

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  Plans?: PlanNode[];
}

/** Rows of `entries` that a statement touched in the server, how it got at them, and the `seq` of each that it found. */
async function explain(query: PathScan): Promise<{ touched: number; ways: Set<string>; found: number[] }> {
  const key = { tenantId: tenantOf("default").tenantId, sessionId: "long" };
  const { sql, parameters } = branchStatement(kysely, key, query, { withPayload: true }).compile();
  const client = await application.connect();
  try {
    // As the statement runs: bound to its tenant, planned once for all parameters.
    await client.query(
      `begin; set local pi_sessions.tenant = '${key.tenantId}'; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_sort = off; set local jit = off`,
    );
    const { rows: found } = await client.query(sql, parameters as unknown[]);
    await client.query(`prepare scan as ${sql}`);
    const values = parameters.map((parameter) => client.escapeLiteral(String(parameter))).join(", ");
    const { rows } = await client.query(`explain (analyze, format json) execute scan(${values})`);
    await client.query("deallocate scan");
    const nodes = flatten(rows[0]["QUERY PLAN"][0].Plan).filter(
      (node) => node["Relation Name"] === "entries" && node["Actual Loops"] > 0,
    );
    return {
      touched: nodes.reduce((sum, node) => sum + rowsOf(node), 0),
      ways: new Set(nodes.map((node) => node["Node Type"])),
      found: found.map(({ seq }) => Number(seq)),
    };
  } finally {
    await client.query("rollback");
    client.release();
  }
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

function rowsOf(node: PlanNode): number {
  const each =
    node["Actual Rows"] +
    (node["Rows Removed by Filter"] ?? 0) +
    (node["Rows Removed by Index Recheck"] ?? 0);
  return each * node["Actual Loops"];
}

const start = `e${ENTRIES}`;
const RUNS = ENTRIES / FORK_EVERY;

/** The `seq` of what each finds, and how many runs are walked for it: to the root, if oldest first. */
const QUERIES: [string, PathScan, { finds: number[]; runs: number }][] = [
  [
    "everything after the last compaction",
    { start, stopAtType: "compaction" },
    { finds: down(ENTRIES, 201), runs: 1 },
  ],
  ["the last compaction", { start, type: "compaction", limit: 1 }, { finds: [COMPACTION], runs: 1 }],
  ["one page, oldest first", { start, order: "oldestFirst", limit: 50 }, { finds: up(1, 50), runs: RUNS }],
  ["the latest 50", { start, limit: 50 }, { finds: down(ENTRIES, 50), runs: 1 }],
  ["a page longer than a run", { start, limit: 2_500 }, { finds: down(ENTRIES, 2_500), runs: 3 }],
  [
    "a page longer than a run, oldest first",
    { start, order: "oldestFirst", limit: 2_500 },
    { finds: up(1, 2_500), runs: RUNS },
  ],
  ["up to a near entry", { start, stopAtId: `e${ENTRIES - 9}` }, { finds: down(ENTRIES, 10), runs: 1 }],
  [
    "up to an entry some runs away",
    { start, stopAtId: `e${ENTRIES - 2_999}` },
    { finds: down(ENTRIES, 3_000), runs: 3 },
  ],
  [
    "up to an entry, oldest first",
    { start, order: "oldestFirst", stopAtId: "e1500" },
    { finds: up(1, 1_500), runs: RUNS },
  ],
  [
    "a page in the middle",
    { start, cursor: { seq: 25_001 }, limit: 50 },
    { finds: down(25_000, 50), runs: 16 },
  ],
  [
    "a page in the middle, oldest first",
    { start, cursor: { seq: 25_000 }, order: "oldestFirst", limit: 50 },
    { finds: up(25_001, 50), runs: RUNS },
  ],
  [
    "up to a type that does not occur, one page",
    { start, stopAtType: "branch_summary", limit: 50 },
    { finds: down(ENTRIES, 50), runs: RUNS },
  ],
  ["to the nearest message", { start, stopAtType: "message" }, { finds: [ENTRIES], runs: 1 }],
  [
    "to an entry or a type, whichever is nearer",
    { start, stopAtType: "compaction", stopAtId: `e${ENTRIES - 1_500}` },
    { finds: down(ENTRIES, 201), runs: 2 },
  ],
  ["the latest 50 of a branch", { branch: "main", limit: 50 }, { finds: down(ENTRIES, 50), runs: 1 }],
  [
    "everything of a branch after its last compaction",
    { branch: "main", stopAtType: "compaction" },
    { finds: down(ENTRIES, 201), runs: 1 },
  ],
  [
    "from a side entry",
    { start: `side${FORK_EVERY}`, limit: 20 },
    { finds: [ENTRIES + FORK_EVERY, ...down(FORK_EVERY, 19)], runs: 1 },
  ],
];

function up(seq: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => seq + n);
}

function down(seq: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => seq - n);
}

describe.each(["without statistics", "with statistics"])("%s", (state) => {
  beforeAll(async () => {
    if (state === "with statistics") await at.admin.query(`analyze "${at.schema}".entries`);
  });

  test.each(QUERIES)(
    "%s touches what it returns and a constant per run that it walks",
    async (_what, query, { finds, runs }) => {
      const { touched, ways, found } = await explain(query);
      expect(found).toEqual(finds);
      expect(ways).not.toContain("Seq Scan");
      // Per run: its first entry, the entry that it was left at, and what stops there.
      expect(touched).toBeLessThanOrEqual(finds.length + 3 * runs + 2);
    },
  );
});

test("the children of an entry are the one that goes on with its run and those that begin one", async () => {
  const ids = async (parentId: string | null) =>
    (await storage.getChildren(parentId, {}, context)).map(({ id }) => id);
  expect(await ids(null)).toEqual(["e1"]);
  expect(await ids("e1")).toEqual(["e2"]);
  expect(await ids(`e${ENTRIES}`)).toEqual([]);
  expect(await ids(`e${FORK_EVERY}`)).toEqual([`e${FORK_EVERY + 1}`, `side${FORK_EVERY}`]);
  expect(await ids("nothing")).toEqual([]);
  expect(await storage.getChildren(`e${FORK_EVERY}`, { limit: 1 }, context)).toHaveLength(1);
});
