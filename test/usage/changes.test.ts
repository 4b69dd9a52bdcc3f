import { afterAll, beforeAll, expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  type Database,
  insertUsage,
  openDatabase,
  type Session,
  type UsageChange,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let analyst: Database;
let analystRole: string;

beforeAll(async () => {
  at = await openTestDatabase();
  analystRole = `${at.schema}_analyst`;
  await at.owner.migrate({ analystRoles: [analystRole] });
  await at.admin.query(`alter role ${analystRole} login password 'analyst'`);
  const url = new URL(at.connectionString);
  url.username = analystRole;
  url.password = "analyst";
  analyst = await openDatabase({ connectionString: url.href, schema: at.schema });
  for (const slug of ["acme", "beta", "gamma"]) await at.database.tenants.create({ slug });
});
afterAll(async () => {
  await analyst.close();
  await at.admin.query(`drop owned by ${analystRole}; drop role ${analystRole}`);
  await at[Symbol.asyncDispose]();
});

let rows = 0;

async function spend(session: Session, count = 1): Promise<string[]> {
  const writes = Array.from({ length: count }, () =>
    insertUsage({
      id: `u${++rows}`,
      adjustment: false,
      usage: {
        input: 1,
        output: 0,
        cacheRead: 0,
        cacheWrite: 0,
        totalTokens: 1,
        cost: { input: 0.1, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.1 },
      },
    }),
  );
  await session.mutate((mutator) => mutator.commit(writes, context), context);
  return writes.map(({ row }) => row.id);
}

async function newSession(tenant: string): Promise<Session> {
  return (await at.database.repo(tenant)).create({}, context);
}

/** Until nothing on the server is older than what was committed: other tests use it too. */
async function settle(): Promise<void> {
  for (let settled = false; !settled; ) {
    const { rows: found } = await at.admin.query(
      `select "${at.schema}".ledger_horizon() > coalesce(max(position), 0) as settled from "${at.schema}".usage_ledger`,
    );
    settled = found[0].settled;
  }
}

async function changesAfter(after: string | undefined, tenant?: string): Promise<UsageChange[]> {
  const [database, scope] = tenant === undefined ? [analyst, {}] : [at.database, { tenant }];
  const found: UsageChange[] = [];
  const options = after === undefined ? scope : { ...scope, after };
  for await (const change of database.usage.changes(options, context)) found.push(change);
  return found;
}

const ids = (changes: readonly UsageChange[]) => changes.map(({ id }) => id);

test("while eight write and one transaction is slow, a reader who goes on from each cursor sees every row once", async () => {
  const tenants = ["acme", "beta", "gamma", "acme", "beta", "gamma", "acme", "beta"];
  const sessions = await Promise.all(tenants.map(newSession));
  const written: string[] = [];
  let isWriting = true;
  const slow = at.admin.connect();
  const writing = Promise.all(
    sessions.map(async (session) => {
      for (let round = 0; round < 15; round++) written.push(...(await spend(session, 3)));
    }),
  ).then(() => {
    isWriting = false;
  });
  const client = await slow;
  await client.query("begin");
  await client.query("select pg_current_xact_id()");
  const seen: string[] = [];
  let cursor: string | undefined;
  for (let round = 0; isWriting; round++) {
    if (round === 3) await client.query("commit");
    for (const change of await changesAfter(cursor)) {
      seen.push(change.id);
      cursor = change.cursor;
      if (seen.length % 50 === 0) break; // as if the reader had died here
    }
  }
  await writing;
  await client.query("rollback");
  client.release();
  await settle();
  for (let more = await changesAfter(cursor); more.length > 0; more = await changesAfter(cursor)) {
    seen.push(...ids(more));
    cursor = more.at(-1)?.cursor;
  }
  expect([...seen].sort()).toEqual([...written].sort());
});

test("the order stays, whatever is added, and from every cursor the rest follows", async () => {
  await spend(await newSession("gamma"), 5);
  await settle();
  const all = await changesAfter(undefined);
  expect(all.length).toBeGreaterThan(5);
  for (const index of [0, 1, Math.floor(all.length / 2), all.length - 2, all.length - 1]) {
    expect(ids(await changesAfter(all[index]?.cursor))).toEqual(ids(all.slice(index + 1)));
  }
  const more = await spend(await newSession("acme"), 2);
  await settle();
  expect(ids(await changesAfter(all.at(-1)?.cursor))).toEqual(more);
  for (const index of [0, Math.floor(all.length / 2)]) {
    expect(ids(await changesAfter(all[index]?.cursor))).toEqual([...ids(all.slice(index + 1)), ...more]);
  }
});

test("more rows than are read at once come once and in order", async () => {
  const written = await spend(await newSession("beta"), 2_500);
  await settle();
  const changes = await changesAfter(undefined, "beta");
  expect(ids(changes).slice(-2_500)).toEqual(written);
  expect(changes.at(-1)).toMatchObject({
    provider: "unknown",
    model: "unknown",
    entryType: "unknown",
    adjustment: false,
    dimensions: {},
    input: 1,
    cost: { total: "0.1" },
  });
});

test("a row that is not committed yet holds back all that began after it, and nothing else", async () => {
  const session = await newSession("acme");
  const [before] = await spend(session);
  await settle();
  const client = await at.admin.connect();
  try {
    await client.query("begin");
    await client.query("select pg_current_xact_id()");
    const after = await spend(session);
    const seen = ids(await changesAfter(undefined, "acme"));
    expect(seen).toContain(before);
    expect(seen).not.toContain(after[0]);
    await client.query("commit");
    await settle();
    expect(ids(await changesAfter(undefined, "acme")).at(-1)).toBe(after[0]);
  } finally {
    client.release();
  }
});

test("a tenant's changes are its own, and all tenants' are for those who may see them", async () => {
  await settle();
  const tenantIds = new Set((await changesAfter(undefined, "beta")).map(({ tenantId }) => tenantId));
  expect([...tenantIds]).toEqual([(await at.database.tenants.get("beta")).tenantId]);
  await expect(at.database.usage.changes({}, context).next()).rejects.toMatchObject({
    code: "database_permission",
  });
  expect((await at.owner.usage.changes({}, context).next()).done).toBe(false);
});

test.each(["", "x", "bm90IGpzb24", Buffer.from("[1,2]").toString("base64url"), 7 as never])(
  "the cursor %j is refused",
  async (after) => {
    await expect(analyst.usage.changes({ after }, context).next()).rejects.toMatchObject({
      code: "invalid_cursor",
    });
  },
);

test("a cursor of one tenant does not go on with another, nor with all", async () => {
  const [first] = await changesAfter(undefined, "acme");
  for (const options of [{ tenant: "beta", after: first?.cursor ?? "" }, { after: first?.cursor ?? "" }]) {
    await expect(analyst.usage.changes(options, context).next()).rejects.toMatchObject({
      code: "invalid_cursor",
    });
  }
});

test("after a restore into a server that counts lower, positions go on rising", async () => {
  await settle();
  const last = (await changesAfter(undefined, "acme")).at(-1);
  // What a dump brings from a server that has seen more transactions.
  await at.admin.query(`update "${at.schema}".usage_ledger set position = position + 1000000000`);
  await at.owner.usage.afterRestore(context);
  await at.owner.usage.afterRestore(context);
  expect((await changesAfter(undefined, "acme")).at(-1)?.id).toBe(last?.id);
  const cursor = (await changesAfter(undefined, "acme")).at(-1)?.cursor;
  const written = await spend(await newSession("acme"), 2);
  await settle();
  expect(ids(await changesAfter(cursor, "acme"))).toEqual(written);
  await expect(at.database.usage.afterRestore(context)).rejects.toMatchObject({
    code: "database_permission",
  });
});
