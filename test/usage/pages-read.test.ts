/**
 * A report of one tenant reads nothing of the others, however many there are and however their rows lie between its
 * own: counted by the server, of the very statement that is sent.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  openDatabase,
  type UsageReport,
  type UsageReportOptions,
} from "../../src/index.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

const HOUR = 3_600_000;
/** Each tenant spends something this often; the rows of all tenants come by turns. */
const APART = 1.5 * HOUR;
const FIRST = Date.UTC(2026, 9, 1);
const DAYS = 75;
const ROWS = (DAYS * 24 * HOUR) / APART;
const MODELS = 3;
const NOVEMBER = { from: "2026-11", to: "2026-12" };
const DAYS_OF_NOVEMBER = 30;
const ROWS_OF_NOVEMBER = (DAYS_OF_NOVEMBER * 24 * HOUR) / APART;

const TABLES = ["usage_ledger", "usage_sums", "usage_tenants"];
/** Of the largest index here. */
const LEVELS = 3;
/** A page has 8 kB and is at least half full. */
const SUMS_PER_PAGE = 15;

let few: TestDatabase;
let many: TestDatabase;
beforeAll(async () => {
  few = await openLedger({ otherTenants: 1 });
  many = await openLedger({ otherTenants: 40 });
}, 120_000);
afterAll(async () => {
  await few[Symbol.asyncDispose]();
  await many[Symbol.asyncDispose]();
});

async function openLedger({ otherTenants }: { otherTenants: number }): Promise<TestDatabase> {
  const schema = `test_${randomBytes(8).toString("hex")}`;
  const at = await openTestDatabase({ schema, applicationName: schema, isAlone: true });
  const slugs = ["acme", ...Array.from({ length: otherTenants }, (_, n) => `other-${n}`)];
  for (const slug of slugs) {
    await at.database.tenants.create({ slug });
    await (await at.database.repo(slug)).create({ id: "s" }, context);
  }
  const admin = new Client({ connectionString: at.ownerConnectionString, application_name: at.schema });
  await admin.connect();
  await admin.query(
    `insert into "${at.schema}".usage_ledger (tenant_id, session_id, usage_id, seq, timestamp, adjustment,
       input, output, cache_read, cache_write, total_tokens,
       cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total, usage,
       provider, model, spent_at, entry_type, role, root_session_id, dimensions, position)
     select of.id, 's', 'u' || n, n, t.at, false, 1, 1, 0, 0, 2, 0.1, 0, 0, 0, 0.1, '{}',
       'p', 'm' || n % $5, t.at, 'message', 'assistant', 's', '{}', "${at.schema}".ledger_position()
     from generate_series(0, $2::int - 1) as n, unnest($1::uuid[]) as of(id),
       lateral (select $3::bigint + n * $4::bigint as at) as t
     order by n, of.id`,
    [slugs.map((slug) => tenantOf(slug).tenantId), ROWS, FIRST, APART, MODELS],
  );
  await at.owner.usage.rollUp({}, context);
  for (const database of [at.owner, at.database]) await database.close();
  await vacuum(admin, at);
  await admin.end();
  await allIsTold(at);
  return at;
}

/** Until then, an index-only scan looks into the table too, for who may see a row. */
async function vacuum(admin: Client, { schema }: TestDatabase): Promise<void> {
  const isDone = async () => {
    for (const table of TABLES) await admin.query(`vacuum "${schema}".${table}`);
    const { rows } = await admin.query<{ is_done: boolean }>(
      `select bool_and(relallvisible = relpages) as is_done from pg_class
       where relnamespace = $1::regnamespace and relname = any($2)`,
      [`"${schema}"`, TABLES],
    );
    return rows[0]?.is_done;
  };
  // It cannot finish while a transaction that began before runs: one of the server's own, at most.
  await vi.waitUntil(isDone, { timeout: 60_000 });
}

/** Backends tell what they have read before they disappear. */
async function allIsTold({ admin, schema }: TestDatabase): Promise<void> {
  const backends = "select from pg_stat_activity where application_name = $1";
  const areGone = async () => (await admin.query(backends, [schema])).rowCount === 0;
  await vi.waitUntil(areGone, { timeout: 20_000 });
}

/** What was read of a table and its indexes. */
interface Read {
  /** Entries of indexes that were looked at. */
  entries: number;
  /** Pages of the table. */
  heap: number;
  /** Pages of its indexes. */
  index: number;
  /** How often the table was read from its beginning. */
  wholes: number;
}

async function readSoFar({ admin, schema }: TestDatabase, table: string): Promise<Read> {
  const { rows } = await admin.query<Read>(
    `select t.seq_scan::int as wholes, (heap_blks_read + heap_blks_hit)::int as heap,
       (idx_blks_read + idx_blks_hit)::int as index,
       (select sum(idx_tup_read) from pg_stat_user_indexes as i where i.relid = t.relid)::int as entries
     from pg_stat_user_tables as t join pg_statio_user_tables as io on io.relid = t.relid
     where t.schemaname = $1 and t.relname = $2`,
    [schema, table],
  );
  return rows[0] as Read;
}

async function reportOf(
  at: TestDatabase,
  options: UsageReportOptions,
): Promise<{ report: UsageReport; sums: Read; ledger: Read; tenants: Read }> {
  const before = await Promise.all(TABLES.map((table) => readSoFar(at, table)));
  const { connectionString, schema } = at;
  const database = await openDatabase({ connectionString, schema, applicationName: schema });
  const report = await database.usage.report({ tenant: "acme", ...NOVEMBER, ...options }, context);
  await database.close();
  await allIsTold(at);
  const after = await Promise.all(TABLES.map((table) => readSoFar(at, table)));
  const [ledger, sums, tenants] = TABLES.map((_, index) => {
    const [from, to] = [before[index] as Read, after[index] as Read];
    return {
      entries: to.entries - from.entries,
      heap: to.heap - from.heap,
      index: to.index - from.index,
      wholes: to.wholes - from.wholes,
    };
  }) as [Read, Read, Read];
  return { report, sums, ledger, tenants };
}

interface Expected {
  options: UsageReportOptions;
  /** The most entries of the sums' index, and of the ledger's. */
  sums: number;
  ledger: number;
  /** How often it goes down an index. */
  probes: number;
}

/** The month itself, and the one before, which may reach into it. */
const MONTHS = 2;
const CUT_DAYS = DAYS_OF_NOVEMBER + 1;
const CUT_HOURS = CUT_DAYS + 1;

describe.each<[string, Expected]>([
  [
    "days and models, which are sums",
    {
      options: { by: ["day", "model"] },
      sums: (MONTHS + DAYS_OF_NOVEMBER) * MODELS,
      ledger: 0,
      probes: 4,
    },
  ],
  [
    "days of a time zone, which are sums of hours",
    {
      options: { by: ["day", "model"], timeZone: "Europe/Berlin" },
      sums: (MONTHS + 2 * DAYS_OF_NOVEMBER) * MODELS + ROWS_OF_NOVEMBER + 48,
      ledger: 0,
      probes: 4 + CUT_DAYS,
    },
  ],
  [
    "days of a time zone that begin at half past, for which hours are looked into",
    {
      options: { by: ["day", "model"], timeZone: "Asia/Kolkata" },
      sums: (MONTHS + 2 * DAYS_OF_NOVEMBER) * MODELS + ROWS_OF_NOVEMBER + 48,
      ledger: 2 * CUT_HOURS,
      probes: 4 + CUT_DAYS + CUT_HOURS,
    },
  ],
  [
    "sessions, of which there are no sums",
    { options: { by: ["session"] }, sums: 0, ledger: ROWS_OF_NOVEMBER, probes: 4 },
  ],
])("a report by %s", (_by, expected) => {
  test("reads ranges of the tenant's own index entries, and of tables only the rows that it sums", async () => {
    for (const at of [few, many]) {
      const { report, sums, ledger, tenants } = await reportOf(at, expected.options);
      expect(report.total.calls).toBe(ROWS_OF_NOVEMBER);
      expect([sums.wholes, ledger.wholes, tenants.wholes]).toEqual([0, 0, 0]);
      expect(sums.entries).toBeLessThanOrEqual(expected.sums);
      expect(ledger.entries).toBeLessThanOrEqual(expected.ledger);
      expect(sums.index).toBeLessThanOrEqual(expected.sums / SUMS_PER_PAGE + expected.probes * LEVELS);
      // A page of the visibility map for each index that is scanned; the sums themselves are in the index.
      expect(sums.heap).toBeLessThanOrEqual(4);
      expect(ledger.heap).toBeLessThanOrEqual(expected.ledger);
    }
  });

  test("reads as much beside 40 tenants as beside one", async () => {
    const [beside1, beside40] = [
      await reportOf(few, expected.options),
      await reportOf(many, expected.options),
    ];
    expect(beside40.report).toEqual(beside1.report);
    expect(beside40.sums.entries).toBe(beside1.sums.entries);
    expect(beside40.ledger.entries).toBe(beside1.ledger.entries);
    // In a larger index, a range may begin one level deeper, and lie on one more page.
    const index = ({ sums, ledger, tenants }: typeof beside1) => sums.index + ledger.index + tenants.index;
    expect(index(beside40) - index(beside1)).toBeLessThanOrEqual(2 * expected.probes);
  });
});
