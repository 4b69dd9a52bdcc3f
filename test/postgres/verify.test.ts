import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { join } from "node:path";
import {
  createSessionRepoConformance,
  createStorageConformance,
} from "@earendil-works/pi-agent-core/harness/session/testing";
import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  appendList,
  branchTip,
  BACKGROUND_CONTEXT as context,
  type Database,
  deleteList,
  deleteValue,
  emptyUsage,
  type Finding,
  insertEntry,
  insertUsage,
  list,
  openDatabase,
  type PgSessionRepo,
  sessionName,
  setValue,
  type Usage,
  type VerifyOptions,
  value,
  type Write,
  withAbortSignal,
} from "../../src/index.ts";
import { PROLOGUE, story } from "../conformance/differential/operation.ts";
import { memorySide, postgresSide } from "../conformance/differential/sides.ts";
import { World } from "../conformance/differential/world.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";

const ARCHIVES = join(import.meta.dirname, "../../examples/archives");

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

/** Runs SQL as a superuser, whom nothing binds, in the test's schema. */
async function sql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = await at.admin.connect();
  try {
    await client.query(`set search_path = "${at.schema}"`);
    return (await client.query(text, values)).rows;
  } finally {
    client.release();
  }
}

async function newTenant(): Promise<string> {
  const slug = randomUUID();
  await at.database.tenants.create({ slug });
  return slug;
}

const newRepo = async (): Promise<PgSessionRepo> => at.database.repo(await newTenant());

/** What a verification finds, in the order in which it says so. */
async function findings(repo: PgSessionRepo, options: VerifyOptions = {}): Promise<Finding[]> {
  const found: Finding[] = [];
  const report = await repo.verify({ ...options, onFinding: (finding) => void found.push(finding) }, context);
  expect(report).toMatchObject({
    findings: found.length,
    repaired: found.filter(({ repaired }) => repaired).length,
  });
  return found;
}

const checksIn = (found: readonly Finding[]) => found.map(({ check }) => check);

const entry = (id: string, parentId: string | null, extra: object = {}) =>
  insertEntry({ id, parentId, type: "custom", customType: "note", ...extra });
const message = (id: string, parentId: string | null, text: string) =>
  insertEntry({
    id,
    parentId,
    type: "message",
    message: { role: "user", content: text, timestamp: 1 },
  });
const spent = (id: string, usage: Partial<Usage> = {}, entryId?: string) =>
  insertUsage({
    id,
    usage: { ...emptyUsage(), ...usage },
    adjustment: false,
    ...(entryId === undefined ? {} : { entryId }),
  });

/** A session with something for every check to look at. */
async function fill(repo: PgSessionRepo, id: string): Promise<void> {
  const storage = await repo.createStorage(
    { id, metadata: { userId: "u1", tags: ["a", { n: 1.5 }] } },
    context,
  );
  const commit = (...writes: Write[]) => storage.commit(writes, context);
  // a1 – a2 – a3 – a4, with a side way b1 – b2 from a2, and another c1 from a2.
  await commit(message("a1", null, "first \0 words"), message("a2", "a1", "more"));
  await commit(entry("a3", "a2", { data: "x\0y" }), setValue(branchTip("main"), "a3"));
  await commit(entry("b1", "a2"), setValue(branchTip("side"), "b1"), entry("c1", "a2"), entry("b2", "b1"));
  await commit(message("a4", "a3", "last"), setValue(branchTip("main"), "a4"));
  await commit(setValue(branchTip("empty"), null), setValue(sessionName, "a name \0 \ud800"));
  await commit(
    spent("u1", { input: 3, reasoning: 0, cost: { ...emptyUsage().cost, total: 0.1 } }, "a4"),
    spent("u2", { output: 5, cacheWrite1h: 2, cost: { ...emptyUsage().cost, total: 0.2 } }),
  );
  await commit(setValue(value("app", "k"), "overwritten"), appendList(list("app", "l"), "gone \0"));
  await commit(setValue(value("app", "k"), { kept: true }), deleteList(list("app", "l")));
  await commit(appendList(list("app", "l"), 1), appendList(list("app", "l"), "two"));
  await commit(setValue(value("app", "gone"), 1), setValue(value("pi.entry.label", "nobody"), "a label"));
  await commit(deleteValue(value("app", "gone")));
  await commit(entry("r1", null), entry("a5", "a4"), setValue(branchTip("main"), "a5"));
  await storage.close(context);
}

describe("finds nothing", () => {
  test("in a session with branches, values, lists and a ledger", async () => {
    const repo = await newRepo();
    await fill(repo, "s");
    expect(await findings(repo)).toEqual([]);
    expect(await repo.verify(undefined, context)).toEqual({ sessions: 1, findings: 0, repaired: 0 });
  });

  test("in an empty tenant, and in an empty session", async () => {
    const repo = await newRepo();
    expect(await repo.verify({}, context)).toEqual({ sessions: 0, findings: 0, repaired: 0 });
    await (await repo.create({ id: "s" }, context)).close(context);
    expect(await repo.verify({ sessionId: "s" }, context)).toEqual({ sessions: 1, findings: 0, repaired: 0 });
  });

  test("in forks of forks that were written to, in imports, and after deletions", async () => {
    const repo = await newRepo();
    await importAll(repo.importer, [ARCHIVES], {}, context);
    await fill(repo, "s");
    const session = await repo.open({ id: "s" }, context);
    await session.setValue(value("pi.lane.config", "side"), {}, context);
    await session.setValue(value("pi.lane.state", "side"), {}, context);
    const tree = await repo.fork({ id: "s" }, { scope: "tree", id: "tree" }, context);
    const path = await repo.fork({ id: "tree" }, { scope: "branch", branch: "side", id: "path" }, context);
    const before = await repo.fork(
      { id: "path" },
      { scope: "branch", branch: "side", position: "before", id: "before" },
      context,
    );
    for (const fork of [tree, path, before]) {
      const side = await fork.branch("side", context);
      await side?.appendMessage({ role: "user", content: "on", timestamp: 1 }, context);
      const again = await fork.createBranch("again", "a1", context);
      await again.appendCustomEntry("note", 1, context);
      await again.appendCustomEntry("note", 2, context);
    }
    const lost = await repo.fork({ id: "s" }, { scope: "tree" }, context);
    await lost.close(context);
    await repo.delete(lost.metadata, context);
    expect(await repo.verify({}, context)).toMatchObject({ sessions: 8, findings: 0 });
  });

  test("in commits, ledgers and branches larger than what is read at once", async () => {
    const repo = await newRepo();
    const storage = await repo.createStorage({ id: "s" }, context);
    const commit = (count: number, write: (index: number) => Write) =>
      storage.commit(
        Array.from({ length: count }, (_, index) => write(index)),
        context,
      );
    // Every seventh entry begins another branch far back; the commit goes in two statements.
    await commit(6_000, (n) =>
      entry(`e${n}`, n === 0 ? null : `e${n % 7 === 0 ? Math.trunc(n / 2) : n - 1}`),
    );
    await commit(2_500, (n) => spent(`u${n}`, { cost: { ...emptyUsage().cost, total: 0.1 * (n % 13) } }));
    await commit(2_500, (n) => setValue(branchTip(`b${n}`), n % 3 === 0 ? null : `e${n}`));
    expect(await findings(repo)).toEqual([]);
    await sql("update entries set run = seq where session_id = 's' and entry_id = 'e5990'");
    await sql("update usage_ledger set input = 1 where session_id = 's' and usage_id = 'u2499'");
    await sql("update scalar_values set value = '\"nobody\"' where session_id = 's' and key = 'b999'");
    expect(await findings(repo)).toMatchObject([
      { check: "branch_tip", count: 1 },
      { check: "usage_columns", count: 1, what: expect.stringContaining("seq 8500") },
      { check: "entry_run" },
      { check: "stored_bytes" },
    ]);
  });

  test("in totals beyond what doubles hold", async () => {
    const repo = await newRepo();
    const storage = await repo.createStorage({ id: "s" }, context);
    const cost = { input: 1.7e308, output: 5e-324, cacheRead: -0, cacheWrite: 1e-7, total: -1e308 };
    const tokens = { input: Number.MAX_SAFE_INTEGER, output: -0 };
    for (let n = 0; n < 3; n++) await storage.commit([spent(`u${n}`, { ...tokens, cost })], context);
    expect((await storage.getStats(context)).usage.cost).toMatchObject({ input: Infinity, total: -Infinity });
    expect(await findings(repo)).toEqual([]);
  });

  test("in a limited tenant that gains, shrinks, forks and loses sessions", async () => {
    const slug = await newTenant();
    await at.owner.tenants.setLimits(slug, { sessions: 10, storedBytes: 10_000_000 });
    const repo = await at.database.repo(slug);
    await fill(repo, "s");
    await fill(repo, "t");
    const storage = await repo.openStorage({ id: "t" }, context);
    await storage.commit([setValue(value("app"), "x".repeat(100_000))], context);
    await storage.commit([deleteValue(value("app"))], context);
    const fork = await repo.fork({ id: "s" }, { scope: "tree" }, context);
    await fork.setValue(value("app"), 1, context);
    // What has not reserved anything frees bytes that stay counted.
    const shrinking = await repo.fork({ id: "s" }, { scope: "tree" }, context);
    await shrinking.deleteValue(value("app", "k"), context);
    await importAll(repo.importer, [ARCHIVES], {}, context);
    await repo.delete({ id: "s" }, context);
    expect(await findings(repo)).toEqual([]);
    await at.owner.tenants.setLimits(slug, { sessions: 10 });
    await fork.setValue(value("app"), "more than is counted".repeat(1000), context);
    expect(await findings(repo)).toEqual([]);
  });

  test("in what pi's conformance suites leave behind", async () => {
    const slugs: string[] = [];
    const add = async () => {
      const slug = await newTenant();
      slugs.push(slug);
      return at.database.repo(slug);
    };
    const repo = await add();
    const ofStorage = createStorageConformance(async () => {
      const storage = await repo.createStorage({}, context);
      return { storage, [Symbol.asyncDispose]: () => storage.close(context) };
    });
    for (const { run } of [...ofStorage, ...createSessionRepoConformance(add)]) await run();
    let sessions = 0;
    for (const slug of slugs) {
      const verified = await at.database.repo(slug);
      expect(await findings(verified)).toEqual([]);
      sessions += (await verified.verify({}, context)).sessions;
    }
    expect(sessions).toBeGreaterThan(30);
  });

  test("in what random stories leave behind, but for tips that were set to anything", async () => {
    const told = fc.sample(story, { numRuns: 25, seed: 1 });
    let sessions = 0;
    for (const { operations } of told) {
      const tenants = new Set((await at.owner.tenants.list()).map(({ slug }) => slug));
      const world = new World({ subject: await postgresSide(at.database), reference: memorySide() });
      for (const operation of [...PROLOGUE, ...operations]) await world.perform(operation);
      await world.end();
      for (const { slug } of await at.owner.tenants.list()) {
        if (tenants.has(slug)) continue;
        const repo = await at.database.repo(slug);
        expect(checksIn(await findings(repo)).filter((check) => check !== "branch_tip")).toEqual([]);
        sessions += (await repo.verify({}, context)).sessions;
      }
    }
    expect(sessions).toBeGreaterThan(25);
  });
});

/** Each breaks one thing in the session `s` of a tenant, which `$1` stands for, as nobody but a superuser could. */
const DAMAGE: Record<string, string[]> = {
  seq_shared: [
    `update scalar_values set seq = (select min(seq) from entries where session_id = 's' and tenant_id = $1)
     where session_id = 's' and tenant_id = $1 and namespace = 'app'`,
    `update list_values set seq = (select max(seq) from usage_ledger where session_id = 's' and tenant_id = $1)
     where session_id = 's' and tenant_id = $1 and value::text = '1'`,
  ],
  seq_ahead: ["update sessions set next_seq = next_seq - 1 where session_id = 's' and tenant_id = $1"],
  id_shared: [
    "update usage_ledger set usage_id = 'a3' where session_id = 's' and usage_id = 'u1' and tenant_id = $1",
  ],
  parent_missing: [
    "update entries set parent_id = 'nowhere' where session_id = 's' and entry_id = 'a4' and tenant_id = $1",
    // In another session there is one.
    "update entries set parent_id = 'only in t' where session_id = 's' and entry_id = 'b1' and tenant_id = $1",
  ],
  parent_later: [
    "update entries set parent_id = 'a5' where session_id = 's' and entry_id = 'a3' and tenant_id = $1",
    "update entries set parent_id = 'a1' where session_id = 's' and entry_id = 'a1' and tenant_id = $1",
  ],
  branch_tip: [
    '"nowhere"',
    '"a4 "',
    '"only in t"',
    "4",
    "true",
    '["a4"]',
    '"a\\u0000"',
    '{"a\\u0000":"\\ud800"}',
    '"\\ud800"',
    `"${"x".repeat(100_000)}"`,
  ].map(
    (tip) => `with old as (select octet_length(value::text) as bytes from scalar_values
       where session_id = 's' and key = 'main' and namespace = 'pi.branch.tip' and tenant_id = $1),
     sized as (update sessions set stored_bytes = stored_bytes - (select bytes from old) + ${Buffer.byteLength(tip)}
       where session_id = 's' and tenant_id = $1)
     update scalar_values set value = '${tip}'
     where session_id = 's' and key = 'main' and namespace = 'pi.branch.tip' and tenant_id = $1`,
  ),
  usage_columns: [
    "input = input + 1",
    "cache_write = 7",
    "reasoning = null",
    "cache_write_1h = 0",
    "cost_total = 0.3",
    "cost_cache_read = 1e-300",
  ].map(
    (change) =>
      `update usage_ledger set ${change} where session_id = 's' and usage_id = 'u1' and tenant_id = $1`,
  ),
  entry_run: [
    "run = seq where entry_id = 'a4'",
    "run = (select run from entries where session_id = 's' and entry_id = 'b1' and tenant_id = $1) where entry_id = 'a5'",
    "run = 1000 where entry_id = 'r1'",
    "run = 1 where entry_id = 'b1'",
    // The branch that came later goes on with the run.
    `run = case when seq >= (select seq from entries where session_id = 's' and entry_id = 'a3' and tenant_id = $1)
       and entry_id like 'a%' then (select seq from entries where session_id = 's' and entry_id = 'a3' and tenant_id = $1)
       when entry_id like 'b%' then 1 else run end where true`,
  ].map((change) => `update entries set ${change} and session_id = 's' and tenant_id = $1`),
  entry_bytes: [
    "update entries set payload_bytes = payload_bytes - 1 where session_id = 's' and entry_id = 'a3' and tenant_id = $1",
  ],
  message_count: ["message_count = message_count + 1", "message_count = 0"].map(ofRow),
  usage_totals: [
    "total_input = total_input + 1",
    "total_output = 0",
    "total_cache_read = 1",
    "total_cache_write = 1",
    "total_cache_write_1h = null",
    "total_reasoning = null",
    "total_tokens = -1",
    "total_cost_input = 1e-300",
    "total_cost_output = 'NaN'",
    "total_cost_cache_read = 1",
    "total_cost_cache_write = 1",
    // What one would get with decimals, or in another order: a bit less.
    "total_cost = 0.3",
  ].map(ofRow),
  session_name: ["name = null", "name = 'a name'"].map(ofRow),
  first_message: ["first_message = null", "first_message = 'more'"].map(ofRow),
  stored_bytes: ["stored_bytes = stored_bytes - 1", "stored_bytes = 0"].map(ofRow),
  reserved_bytes: ["reserved_bytes = -1"].map(ofRow),
  metadata_terms: [
    `insert into session_terms (tenant_id, session_id, term, created_at)
     select tenant_id, session_id, 7, created_at from sessions where session_id = 's' and tenant_id = $1`,
    "delete from session_terms where session_id = 's' and tenant_id = $1",
    "update session_terms set created_at = created_at + 1 where session_id = 's' and tenant_id = $1",
  ],
};

function ofRow(change: string): string {
  return `update sessions set ${change} where session_id = 's' and tenant_id = $1`;
}

const REPAIRABLE = [
  "entry_run",
  "entry_bytes",
  "message_count",
  "usage_totals",
  "session_name",
  "first_message",
  "stored_bytes",
  "reserved_bytes",
  "metadata_terms",
];
const PROJECTIONS = {
  session_terms: ["tenant_id", "session_id", "term", "created_at"],
  tenant_storage: ["sessions", "bytes"],
  entries: ["run", "payload_bytes"],
  sessions: [
    ...["name", "first_message", "message_count", "stored_bytes", "reserved_bytes"],
    ...["total_input", "total_output", "total_cache_read", "total_cache_write", "total_cache_write_1h"],
    ...["total_reasoning", "total_tokens", "total_cost_input", "total_cost_output"],
    ...["total_cost_cache_read", "total_cost_cache_write", "total_cost"],
    // Generated from the name, where there is such a column.
    "name_key",
  ],
};

/** All rows of a tenant as texts: those of authoritative columns, and those of projections. */
async function dump(slug: string): Promise<{ authoritative: unknown; projections: unknown }> {
  const columns = await sql(
    `select c.table_name as "table", c.column_name as "column" from information_schema.columns as c
     where c.table_schema = $1 and exists (select from information_schema.columns as t
       where t.table_schema = $1 and t.table_name = c.table_name and t.column_name = 'tenant_id')
     order by c.ordinal_position`,
    [at.schema],
  );
  const dumped = { authoritative: {} as Record<string, unknown>, projections: {} as Record<string, unknown> };
  for (const table of new Set(columns.map((row) => row["table"] as string))) {
    const projected = (PROJECTIONS as Record<string, string[]>)[table] ?? [];
    const of = (kind: boolean) =>
      columns
        .filter((row) => row["table"] === table && projected.includes(row["column"] as string) === kind)
        .map((row) => `${row["column"]}::text`)
        .join(", ");
    const rows = (selected: string) =>
      sql(
        `select ${selected} from ${table} where tenant_id = tenant_id($1) order by ${of(false) || of(true)}`,
        [slug],
      );
    if (of(false) !== "") dumped.authoritative[table] = await rows(of(false));
    if (projected.length > 0) dumped.projections[table] = await rows(of(true));
  }
  return dumped;
}

async function prepare(): Promise<{
  slug: string;
  repo: PgSessionRepo;
  tenantId: string;
  owner: PgSessionRepo;
}> {
  const slug = await newTenant();
  const repo = await at.database.repo(slug);
  await fill(repo, "s");
  const other = await repo.createStorage({ id: "t" }, context);
  await other.commit([entry("only in t", null)], context);
  await other.close(context);
  const { tenantId } = await at.database.tenants.get(slug);
  return { slug, repo, tenantId, owner: await at.owner.repo(slug) };
}

const isRepairable = ([check]: [string, string[]]) => REPAIRABLE.includes(check);

test.each(Object.entries(DAMAGE))(
  "%s is found, and nothing else, where it is broken",
  async (check, statements) => {
    const { repo, tenantId } = await prepare();
    for (const statement of statements) {
      await sql(statement, [tenantId]);
      expect(await findings(repo), statement).toMatchObject([
        { check, sessionId: "s", repairable: REPAIRABLE.includes(check), repaired: false },
      ]);
      expect(await repo.verify({ sessionId: "t" }, context)).toMatchObject({ findings: 0 });
      // The next one starts from a session that is whole.
      await sql("delete from sessions where tenant_id = $1 and session_id = 's'", [tenantId]);
      await fill(repo, "s");
    }
  },
);

test.each(Object.entries(DAMAGE).filter(isRepairable))(
  "%s is repaired, and nothing but projections changes",
  async (check, statements) => {
    const { slug, tenantId, owner } = await prepare();
    for (const statement of statements) {
      const before = await dump(slug);
      await sql(statement, [tenantId]);
      expect(await dump(slug)).not.toEqual(before);
      expect(await findings(owner, { repair: true }), statement).toMatchObject([
        { check, sessionId: "s", repairable: true, repaired: true },
      ]);
      expect(await findings(owner)).toEqual([]);
      if (check === "message_count" || check === "usage_totals") await takeBackGap(tenantId);
      expect(await dump(slug)).toEqual(before);
    }
  },
);

test.each(Object.entries(DAMAGE).filter((damage) => !isRepairable(damage)))(
  "%s is left alone by a repair",
  async (check, statements) => {
    const { slug, tenantId, owner } = await prepare();
    await sql(statements[0] as string, [tenantId]);
    const before = await dump(slug);
    expect(await findings(owner, { repair: true })).toMatchObject([
      { check, repairable: false, repaired: false },
    ]);
    expect(await dump(slug)).toEqual(before);
  },
);

/** A repair of totals leaves a gap of one in the numbers of the session, so that whoever has it open looks again. */
async function takeBackGap(tenantId: string): Promise<void> {
  await sql("update sessions set next_seq = next_seq - 1 where tenant_id = $1 and session_id = 's'", [
    tenantId,
  ]);
}

test("a tip that is spelled otherwise names the same entry", async () => {
  const { repo, tenantId } = await prepare();
  await sql(
    `update scalar_values set value = ' "\\u0061\\u0034" ' where tenant_id = $1 and session_id = 's' and key = 'main'
     and namespace = 'pi.branch.tip'`,
    [tenantId],
  );
  expect(checksIn(await findings(repo))).toEqual(["stored_bytes"]);
});

test("what is found says where, and nothing of what was said", async () => {
  const { repo, tenantId } = await prepare();
  for (const statements of Object.values(DAMAGE)) await sql(statements[0] as string, [tenantId]);
  await sql(ofRow("name = 'a name', first_message = 'first words'"), [tenantId]);
  const found = await findings(repo);
  expect(found.length).toBeGreaterThan(10);
  expect(found.find(({ check }) => check === "parent_missing")?.what).toMatch(/^1 entry .* seq 9$/);
  const said = JSON.stringify(found);
  for (const secret of ["words", "more", "last", "a name", "kept", "two"]) expect(said).not.toContain(secret);
});

test("many faults of one kind are one finding", async () => {
  const { repo, tenantId } = await prepare();
  await sql("update entries set run = seq + 1000 where tenant_id = $1 and session_id = 's'", [tenantId]);
  expect(await findings(repo)).toMatchObject([{ check: "entry_run", count: 9 }]);
});

test.each([
  "update usage_sums set cost_total = cost_total + 0.000000000001 where tenant_id = $1 and span = 'day'",
  "update usage_sums set rows = rows - 1 where tenant_id = $1 and span = 'hour'",
  "delete from usage_sums where tenant_id = $1 and span = 'month'",
  "update usage_sums set model = model || 'x' where tenant_id = $1",
])("sums that are not those of the ledger are found and made anew: %s", async (statement) => {
  const { slug, repo, tenantId } = await prepare();
  const summed = () => at.database.usage.rollUp({ tenant: slug }, context);
  for (let rows = await summed(); rows === 0; rows = await summed()); // others on the server hold it back
  expect(await findings(repo)).toEqual([]);
  await sql(statement, [tenantId]);
  expect(await findings(repo)).toMatchObject([
    { check: "usage_sums", sessionId: undefined, repairable: true, repaired: false },
  ]);
  expect(await findings(repo, { sessionId: "s" })).toEqual([]);
  expect(await findings(repo, { repair: true })).toMatchObject([{ check: "usage_sums", repaired: true }]);
  expect(await findings(repo)).toEqual([]);
});

describe("a tenant with limits", () => {
  const limited = async () => {
    const prepared = await prepare();
    await at.owner.tenants.setLimits(prepared.slug, { sessions: 10, storedBytes: 10_000_000 });
    const storage = await prepared.repo.openStorage({ id: "s" }, context);
    await storage.commit([setValue(value("app"), "reserves bytes")], context);
    await storage.close(context);
    return prepared;
  };

  test.each([
    ["tenant_sessions", "update tenant_storage set sessions = sessions + 1 where tenant_id = $1"],
    ["tenant_sessions", "update tenant_storage set sessions = sessions - 1 where tenant_id = $1"],
    ["tenant_bytes", "update tenant_storage set bytes = bytes - 1 where tenant_id = $1"],
  ])("%s is found and repaired", async (check, statement) => {
    const { slug, repo, tenantId } = await limited();
    const before = await dump(slug);
    await sql(statement, [tenantId]);
    expect(await findings(repo)).toMatchObject([{ check, sessionId: undefined, repaired: false }]);
    expect(await findings(repo, { sessionId: "s" })).toEqual([]);
    expect(await findings(repo, { repair: true })).toMatchObject([{ check, repaired: true }]);
    expect(await findings(repo)).toEqual([]);
    expect(await dump(slug)).toEqual(before);
  });

  test("a count that is gone is found, and counted again by the owner only", async () => {
    const { slug, repo, owner, tenantId } = await limited();
    const before = await dump(slug);
    await sql("delete from tenant_storage where tenant_id = $1", [tenantId]);
    expect(checksIn(await findings(repo))).toEqual(["tenant_sessions", "tenant_bytes"]);
    await expect(repo.verify({ repair: true }, context)).rejects.toMatchObject({
      code: "database_permission",
      message: expect.stringContaining("connect with the role that owns the schema"),
    });
    expect(checksIn(await findings(owner, { repair: true }))).toEqual(["tenant_sessions", "tenant_bytes"]);
    expect(await dump(slug)).toEqual(before);
  });

  test("what a repaired session stores is counted for its tenant, and the limit holds", async () => {
    const { slug, repo, tenantId } = await limited();
    const size = (
      await sql("select stored_bytes from sessions where tenant_id = $1 and session_id = 's'", [tenantId])
    )[0];
    await sql(
      "update sessions set stored_bytes = 1, reserved_bytes = -1 where tenant_id = $1 and session_id = 's'",
      [tenantId],
    );
    expect(checksIn(await findings(repo, { sessionId: "s", repair: true }))).toEqual([
      "stored_bytes",
      "reserved_bytes",
    ]);
    expect(await findings(repo)).toEqual([]);
    const reserving = await repo.openStorage({ id: "s" }, context);
    await reserving.commit([setValue(value("app"), "more than it has reserved")], context);
    await sql(ofRow("stored_bytes = 1"), [tenantId]);
    expect(checksIn(await findings(repo, { repair: true }))).toEqual(["stored_bytes"]);
    expect(
      await sql("select reserved_bytes::int from sessions where tenant_id = $1 and session_id = 's'", [
        tenantId,
      ]),
    ).toEqual([{ reserved_bytes: 0 }]);
    const [row] = await sql(
      `select bytes = (select sum(greatest(stored_bytes, reserved_bytes)) from sessions where tenant_id = $1) as exact
       from tenant_storage where tenant_id = $1`,
      [tenantId],
    );
    expect(row).toEqual({ exact: true });
    await at.owner.tenants.setLimits(slug, { storedBytes: Number(size?.["stored_bytes"]) });
    const storage = await repo.openStorage({ id: "s" }, context);
    await expect(storage.commit([setValue(value("more"), 1)], context)).rejects.toMatchObject({
      code: "tenant_limit",
    });
  });
});

describe("repair", () => {
  test("of runs and sizes needs the role that owns the tables, and changes nothing without it", async () => {
    const { slug, repo, owner, tenantId } = await prepare();
    await sql("update entries set run = seq where tenant_id = $1 and session_id = 's'", [tenantId]);
    await sql("update sessions set message_count = 0 where tenant_id = $1 and session_id = 's'", [tenantId]);
    const before = await dump(slug);
    await expect(repo.verify({ repair: true }, context)).rejects.toMatchObject({
      code: "database_permission",
      message: expect.stringContaining("connect with the role that owns the schema"),
    });
    expect(await dump(slug)).toEqual(before);
    expect(checksIn(await findings(owner, { repair: true }))).toEqual(["entry_run", "message_count"]);
    expect(await findings(repo)).toEqual([]);
  });

  test("makes the runs that the commits made, however they were mixed up", async () => {
    const slug = await newTenant();
    const owner = await at.owner.repo(slug);
    const storage = await owner.createStorage({ id: "s" }, context);
    const { tenantId } = await at.owner.tenants.get(slug);
    const random = fc.sample(fc.integer({ min: 0, max: 0x7fffffff }), { numRuns: 2_500, seed: 3 });
    const parents = random.map((number, index) =>
      index === 0 || number % 50 === 0 ? null : `e${number % 3 === 0 ? number % index : index - 1}`,
    );
    for (let start = 0; start < parents.length; start += 40) {
      const writes = parents.slice(start, start + 40).map((parent, n) => entry(`e${start + n}`, parent));
      await storage.commit(writes, context);
    }
    expect(await findings(owner)).toEqual([]);
    const before = await dump(slug);
    for (const run of ["seq", "1", "seq + 5000", "(seq * 7919) % 2503", "greatest(1, run - 1)"]) {
      await sql(`update entries set run = ${run} where tenant_id = $1`, [tenantId]);
      expect(await findings(owner, { repair: true }), run).toMatchObject([
        { check: "entry_run", repaired: true },
      ]);
      expect(await findings(owner), run).toEqual([]);
      expect(await dump(slug), run).toEqual(before);
    }
  });

  test("of a tree with missing parents repairs the rest, and what is missing stays found", async () => {
    const { owner, tenantId } = await prepare();
    await sql("delete from entries where tenant_id = $1 and session_id = 's' and entry_id = 'a2'", [
      tenantId,
    ]);
    await sql("update entries set run = seq where tenant_id = $1 and session_id = 's' and entry_id = 'a5'", [
      tenantId,
    ]);
    expect(await findings(owner, { repair: true })).toMatchObject([
      { check: "parent_missing", count: 3, repaired: false },
      { check: "entry_run", count: 1, repaired: true },
      { check: "message_count", repaired: true },
      { check: "stored_bytes", repaired: true },
    ]);
    expect(await findings(owner)).toMatchObject([{ check: "parent_missing", count: 3 }]);
  });

  test("is not undone by a program that had the session open all the time", async () => {
    const { repo, tenantId } = await prepare();
    await sql(
      "update sessions set message_count = 90, total_cost = 90 where tenant_id = $1 and session_id = 's'",
      [tenantId],
    );
    const storage = await repo.openStorage({ id: "s" }, context);
    expect(checksIn(await findings(repo, { repair: true }))).toEqual(["message_count", "usage_totals"]);
    const { stats } = await storage.commit([message("new", "a5", "new")], context);
    expect(stats).toMatchObject({ messageCount: 4, usage: { cost: { total: 0.1 + 0.2 } } });
    expect(await findings(repo)).toEqual([]);
  });

  test("lets no commit slip in: one that had begun before starts over behind it", async () => {
    const { repo, owner, tenantId } = await prepare();
    const storage = await repo.openStorage({ id: "s" }, context);
    await sql("update entries set run = seq where tenant_id = $1 and entry_id = 'a5'", [tenantId]);
    const gate = await at.admin.connect();
    try {
      await gate.query(`set search_path = "${at.schema}"`);
      await gate.query("begin");
      // The repair has to wait for this entry when it has taken the session; then the commit waits for the session,
      // and has seen the wrong run.
      await gate.query("select from entries where tenant_id = $1 and entry_id = 'a5' for update", [tenantId]);
      const repairing = findings(owner, { repair: true });
      await untilWaiting(1);
      const committing = storage.commit([entry("late", "a5")], context);
      await untilWaiting(2);
      await gate.query("rollback");
      expect(await repairing).toMatchObject([{ check: "entry_run", repaired: true }]);
      await committing;
    } finally {
      await gate.query("rollback");
      gate.release();
    }
    expect(await findings(repo)).toEqual([]);
  });

  test("of a suspended tenant is refused", async () => {
    const { slug, owner, tenantId } = await prepare();
    await sql(ofRow("message_count = 0"), [tenantId]);
    await at.owner.tenants.suspend(slug);
    expect(checksIn(await findings(owner))).toEqual(["message_count"]);
    await expect(owner.verify({ repair: true }, context)).rejects.toMatchObject({ code: "tenant_suspended" });
  });

  test("goes on beside writers, who lose nothing", async () => {
    const { owner, repo, tenantId } = await prepare();
    const storages = await Promise.all([1, 2, 3].map(() => repo.openStorage({ id: "s" }, context)));
    let isDone = false;
    const writing = storages.map(async (storage, writer) => {
      let parent = "a5";
      for (let n = 0; !isDone; n++) {
        const id = `w${writer}-${n}`;
        await storage.commit([message(id, parent, "x"), spent(`u-${id}`, { input: 1 })], context);
        parent = id;
      }
    });
    for (let n = 0; n < 10; n++) {
      await sql("update entries set run = seq where tenant_id = $1 and session_id = 's' and seq % 5 = 0", [
        tenantId,
      ]);
      await sql(ofRow("first_message = null, stored_bytes = 0"), [tenantId]);
      await findings(owner, { repair: true });
    }
    isDone = true;
    await Promise.all(writing);
    await findings(owner, { repair: true });
    expect(await findings(repo)).toEqual([]);
  });

  /** Until so many of this test's connections wait for a lock. */
  async function untilWaiting(count: number): Promise<void> {
    for (;;) {
      const [row] = await sql(
        `select count(*)::int as waiting from pg_locks
         where not granted and pid in (select pid from pg_locks where relation in (
           select c.oid from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where n.nspname = $1))`,
        [at.schema],
      );
      if (Number(row?.["waiting"]) >= count) return;
    }
  }
});

describe("a verification", () => {
  test("fetches no payloads and no values", async () => {
    const slug = await newTenant();
    const pool = new pg.Pool({ connectionString: at.connectionString });
    const streams = new Set<Socket>();
    pool.on("connect", (client) => {
      streams.add((client as unknown as { connection: { stream: Socket } }).connection.stream);
    });
    const database: Database = await openDatabase({ pool, schema: at.schema });
    const repo = await database.repo(slug);
    const storage = await repo.createStorage({ id: "s" }, context);
    const large = "x".repeat(1_000_000);
    await storage.commit(
      [
        message("a", null, large),
        setValue(value("app"), large),
        setValue(branchTip("main"), large),
        appendList(list("app"), large),
        spent("u", { ...emptyUsage(), note: large } as Partial<Usage>),
        insertUsage({ id: "v", usage: emptyUsage(), adjustment: false, details: large }),
      ],
      context,
    );
    const received = () => [...streams].reduce((sum, { bytesRead }) => sum + bytesRead, 0);
    const before = received();
    expect(checksIn(await findings(repo))).toEqual(["branch_tip"]);
    expect(received() - before).toBeLessThan(10_000);
    await database.close();
    await pool.end();
  });

  test("goes through more sessions than it lists at once, and waits for whoever is told", async () => {
    const slug = await newTenant();
    const repo = await at.database.repo(slug);
    const { tenantId } = await at.database.tenants.get(slug);
    await (await repo.create({ id: "s" }, context)).close(context);
    await sql(
      `insert into sessions (tenant_id, session_id, storage_version, created_at, modified_at, next_seq, message_count,
         total_input, total_output, total_cache_read, total_cache_write, total_tokens, total_cost_input,
         total_cost_output, total_cost_cache_read, total_cost_cache_write, total_cost, root_session_id)
       select $1, 's' || n, 1, 0, 0, 1, case when n in (7, 1100) then 1 else 0 end, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 's' || n
       from generate_series(1, 1100) as n`,
      [tenantId],
    );
    let isTold = false;
    const told: (string | undefined)[] = [];
    const report = await repo.verify(
      {
        onFinding: async ({ sessionId }) => {
          expect(isTold).toBe(false);
          isTold = true;
          await repo.list({ limit: 1 }, context);
          told.push(sessionId);
          isTold = false;
        },
      },
      context,
    );
    expect(report).toEqual({ sessions: 1101, findings: 2, repaired: 0 });
    expect(told).toEqual(["s1100", "s7"]);
  });

  test("ends with what is thrown by whoever is told", async () => {
    const { repo, tenantId } = await prepare();
    await sql("update sessions set message_count = 9, name = 'x' where tenant_id = $1", [tenantId]);
    let told = 0;
    const onFinding = async () => {
      told++;
      throw new Error("no more");
    };
    await expect(repo.verify({ onFinding }, context)).rejects.toThrow("no more");
    expect(told).toBe(1);
  });

  test("ends when it is aborted, with the reason", async () => {
    const { repo, tenantId } = await prepare();
    await sql(ofRow("message_count = 0"), [tenantId]);
    const controller = new AbortController();
    const verifying = repo.verify(
      { onFinding: () => controller.abort(new Error("enough")) },
      withAbortSignal(controller.signal, context),
    );
    await expect(verifying).rejects.toThrow("enough");
  });

  test("of a session that is not there, or with options that are none, is refused", async () => {
    const repo = await newRepo();
    await expect(repo.verify({ sessionId: "nobody" }, context)).rejects.toMatchObject({
      code: "session_not_found",
    });
    await expect(repo.verify({ sessionId: "a\0" }, context)).rejects.toMatchObject({ code: "invalid_text" });
    await expect(repo.verify({ repair: 1 as unknown as boolean }, context)).rejects.toMatchObject({
      code: "invalid_option",
    });
  });

  test("sees only its tenant", async () => {
    const { repo } = await prepare();
    const other = await prepare();
    await sql(ofRow("message_count = 0"), [other.tenantId]);
    expect(await findings(repo)).toEqual([]);
    expect(checksIn(await findings(other.repo))).toEqual(["message_count"]);
  });
});
