import { afterAll, beforeAll, expect, test } from "vitest";
import {
  appendList,
  BACKGROUND_CONTEXT as context,
  deleteList,
  insertEntry,
  insertUsage,
  list,
  openDatabase,
  setValue,
  type Usage,
  value,
  type Write,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  at = await openTestDatabase();
  repo = await at.database.repo("default");
});
afterAll(() => at[Symbol.asyncDispose]());

const note = (id: string, parentId: string | null): Write =>
  insertEntry({ id, parentId, type: "custom", customType: "note", data: { id } });

const spent = (id: string, cost: number): Write => {
  const usage: Usage = {
    input: 1,
    output: 2,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 3,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: cost },
  };
  return insertUsage({ id, usage, adjustment: false });
};

test("eight writers in as many processes lose no commit and share no sequence number", async () => {
  const session = await repo.create({}, context);
  const writers = await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      const database = await openDatabase({ connectionString: at.connectionString, schema: at.schema });
      return {
        writer,
        database,
        session: await (await database.repo("default")).open(session.metadata, context),
      };
    }),
  );
  const results = await Promise.all(
    writers.map(async ({ writer, session: own }) => {
      const seqs: number[] = [];
      for (let index = 0; index < 20; index++) {
        const writes = [note(`${writer}/${index}`, null), spent(`${writer}/${index}/usage`, 0.1)];
        seqs.push(...(await own.mutate((mutator) => mutator.commit(writes, context), context)).seqs);
      }
      return seqs;
    }),
  );
  await Promise.all(writers.map(({ database }) => database.close()));
  const seqs = results.flat();
  expect(new Set(seqs).size).toBe(8 * 20 * 2);
  const entries = await session.findEntries({ order: "asc" }, context);
  expect(entries.map(({ id }) => id).sort()).toEqual(
    writers.flatMap(({ writer }) => Array.from({ length: 20 }, (_, index) => `${writer}/${index}`)).sort(),
  );
  const ledger = await at.admin.query(
    `select sum(cost_total)::text as cost, count(*)::int as rows from "${at.schema}".usage_ledger where session_id = $1`,
    [session.metadata.id],
  );
  expect(ledger.rows).toEqual([{ cost: "16.0", rows: 160 }]);
  const { usage } = await session.getStats(context);
  expect(usage.totalTokens).toBe(3 * 160);
  expect(usage.cost.total).toBe(Array.from({ length: 160 }).reduce<number>((sum) => sum + 0.1, 0));
  await session.close(context);
});

test("every commit runs at SERIALIZABLE", async () => {
  const session = await repo.create({}, context);
  await at.admin.query(`
    create function "${at.schema}".note_isolation() returns trigger language plpgsql as $$ begin
      raise exception using errcode = 'P0001', message = current_setting('transaction_isolation'); end $$;
    create trigger note_isolation before update on "${at.schema}".sessions
      for each row when (new.session_id = '${session.metadata.id}')
      execute function "${at.schema}".note_isolation()`);
  await expect(session.setName("x", context)).rejects.toThrow("serializable");
  await at.admin.query(`drop function "${at.schema}".note_isolation cascade`);
  await session.close(context);
});

test.each(["40001", "40P01"])("a commit that fails with %s is repeated and happens once", async (errcode) => {
  const session = await repo.create({}, context);
  await at.admin.query(`
    create sequence "${at.schema}".failures;
    create function "${at.schema}".fail_twice() returns trigger language plpgsql security definer as $$ begin
      if nextval('"${at.schema}".failures') <= 2 then raise exception using errcode = '${errcode}'; end if;
      return new; end $$;
    create trigger fail_twice before insert on "${at.schema}".entries
      for each row execute function "${at.schema}".fail_twice()`);
  try {
    const result = await session.mutate((mutator) => mutator.commit([note("once", null)], context), context);
    expect(result.seqs).toEqual([1]);
    expect(await session.findEntries(undefined, context)).toHaveLength(1);
    const { rows } = await at.admin.query(`select last_value::int from "${at.schema}".failures`);
    expect(rows).toEqual([{ last_value: 3 }]);
  } finally {
    await at.admin.query(
      `drop function "${at.schema}".fail_twice cascade; drop sequence "${at.schema}".failures`,
    );
  }
  await session.close(context);
});

test("a commit that can never succeed ends in an error that says it is safe to try again", async () => {
  const session = await repo.create({}, context);
  await at.admin.query(`
    create function "${at.schema}".fail_always() returns trigger language plpgsql as $$ begin
      raise exception using errcode = '40001'; end $$;
    create trigger fail_always before insert on "${at.schema}".list_values
      for each row execute function "${at.schema}".fail_always()`);
  try {
    await expect(session.appendList(list("x"), 1, context)).rejects.toMatchObject({
      code: "commit_contention",
    });
  } finally {
    await at.admin.query(`drop function "${at.schema}".fail_always cascade`);
  }
  await session.appendList(list("x"), 1, context);
  await session.close(context);
});

test("100,000 entries, 10,001 list elements and as many values go into one commit", async () => {
  const storage = await repo.createStorage({}, context);
  const size = 100_000;
  const writes: Write[] = [
    ...Array.from({ length: size }, (_, index) => note(`e${index}`, index === 0 ? null : `e${index - 1}`)),
    appendList(list("big"), "gone"),
    deleteList(list("big")),
    ...Array.from({ length: 10_001 }, (_, index) => appendList(list("big"), index)),
    ...Array.from({ length: 10_001 }, (_, index) => setValue(value("big", `k${index}`), index)),
  ];
  const result = await storage.commit(writes, context);
  expect(result.seqs).toHaveLength(writes.length);
  const path = await storage.scanBranchStructure({ start: `e${size - 1}`, order: "oldestFirst" }, context);
  expect(path.map(({ id }) => id)).toEqual(Array.from({ length: size }, (_, index) => `e${index}`));
  expect(await storage.scanValues(value("big"), context)).toHaveLength(10_001);
  const page = await storage.readList(list("big"), { limit: 10_000 }, context);
  expect(page.map((element) => element.value)).toEqual(Array.from({ length: 10_000 }, (_, index) => index));
  await storage.close(context);
});

test("what a commit appends to a list that it deletes stays, in whichever order the server does both", async () => {
  const storage = await repo.createStorage({ id: "emptied list" }, context);
  const { seqs } = await storage.commit(
    [appendList(list("l"), "gone"), appendList(list("l"), "new")],
    context,
  );
  await at.admin.query(
    `select "${at.schema}".delete_lists($1, $2, array['l'], array[''], array[$3::bigint])`,
    [tenantOf("default").tenantId, "emptied list", seqs[1]],
  );
  expect(await storage.readList(list("l"), undefined, context)).toMatchObject([{ value: "new" }]);
  await storage.close(context);
});

test("a large commit whose last write is refused leaves nothing of its first ones", async () => {
  const storage = await repo.createStorage({}, context);
  const writes = Array.from({ length: 20_000 }, (_, index) => note(`e${index}`, null));
  await expect(storage.commit([...writes, note("x", "nowhere")], context)).rejects.toMatchObject({
    code: "missing_parent",
    parentId: "nowhere",
  });
  expect(await storage.scanEntries({ limit: 1 }, context)).toEqual([]);
  expect((await storage.commit([note("first", null)], context)).firstSeq).toBe(1);
  await storage.close(context);
});

test("money is kept exactly, and totals add up as doubles in ledger order", async () => {
  const storage = await repo.createStorage({}, context);
  const costs = [0.1, 0.2, 5e-324, 1e21, 0.3, 123456.789];
  const { stats } = await storage.commit(
    costs.map((cost, index) => spent(`u${index}`, cost)),
    context,
  );
  expect(stats.usage.cost.total).toBe(costs.reduce((sum, cost) => sum + cost, 0));
  expect(await storage.getStats(context)).toEqual(stats);
  const { rows } = await at.admin.query<{ cost_total: string }>(
    `select cost_total from "${at.schema}".usage_ledger where usage_id like 'u_' order by seq`,
  );
  expect(rows.map(({ cost_total }) => Number(cost_total))).toEqual(costs);
  expect(rows[3]?.cost_total).toBe("1000000000000000000000");
  await storage.close(context);
});

test("structure scans read no payload", async () => {
  const storage = await repo.createStorage({ id: "structure" }, context);
  await storage.commit([note("a", null), note("b", "a")], context);
  // A role that may read all columns but that one.
  const role = `reader_${at.schema}`;
  await at.admin.query(`
    create role ${role} login password 'reader';
    grant usage on schema "${at.schema}" to ${role};
    grant select on "${at.schema}".kysely_migration, "${at.schema}".tenants, "${at.schema}".sessions,
      "${at.schema}".scalar_values to ${role};
    grant select (tenant_id, session_id, entry_id, parent_id, seq, run, timestamp, type, custom_type)
      on "${at.schema}".entries to ${role}`);
  await storage.close(context);
  const url = new URL(at.connectionString);
  url.username = role;
  url.password = "reader";
  const reader = await openDatabase({ connectionString: url.href, schema: at.schema });
  try {
    const structure = await (await reader.repo("default")).openStorage({ id: "structure" }, context);
    expect(await structure.scanBranchStructure({ start: "b" }, context)).toMatchObject([
      { id: "b" },
      { id: "a" },
    ]);
    await expect(structure.scanBranch({ start: "b" }, context)).rejects.toMatchObject({
      code: "database_permission",
    });
    await structure.close(context);
  } finally {
    await reader.close();
    await at.admin.query(`drop owned by ${role}; drop role ${role}`);
  }
});
