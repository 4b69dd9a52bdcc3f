import pg from "pg";
import { expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, type Database, openDatabase } from "../../src/index.ts";
import { printMigrations } from "../../src/postgres/migrations.ts";
import { openTestDatabase } from "../support/database.ts";

test("ten processes that migrate at once all succeed, and one of them does the work", async () => {
  await using at = await openTestDatabase({ migrated: false });
  const { schema, connectionString } = at;
  // A pool each, as ten processes have.
  const databases: Database[] = await Promise.all(
    Array.from({ length: 10 }, () => openDatabase({ connectionString, schema })),
  );
  try {
    const applied = await Promise.all(databases.map((database) => database.migrate()));
    expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
    const statuses = await Promise.all(databases.map((database) => database.migrationStatus()));
    for (const status of statuses) expect(status).toMatchObject({ pending: [], unknown: [] });
  } finally {
    await Promise.all(databases.map((database) => database.close()));
  }
});

test("two schemas of one database live beside each other", async () => {
  await using one = await openTestDatabase();
  await using other = await openTestDatabase();
  const session = await (await one.database.repo("default")).create({ id: "same" }, context);
  await (await other.database.repo("default")).create({ id: "same" }, context);
  await session.setName("one", context);
  const summaries = await (await other.database.repo("default")).summarize(undefined, context);
  expect(summaries.map(({ name }) => name)).toEqual([undefined]);
});

test("migrating does not mind schemas that come and go beside it", async () => {
  await using at = await openTestDatabase({ migrated: false });
  const noise = `${at.schema}_noise`;
  let isDone = false;
  const comingAndGoing = (async () => {
    while (!isDone) {
      await at.admin.query(`create schema ${noise}; create table ${noise}.t (id serial primary key)`);
      await at.admin.query(`drop schema ${noise} cascade`);
    }
  })();
  for (let round = 0; round < 10; round++) {
    await at.database.migrate();
    await at.admin.query(`drop schema "${at.schema}" cascade`);
  }
  isDone = true;
  await comingAndGoing;
});

test("a schema name keeps its case", async () => {
  await using at = await openTestDatabase({ schema: "Mixed_Case" });
  expect(await at.database.migrationStatus()).toMatchObject({ pending: [] });
});

test("the printed script makes what migrate makes, and migrate then finds nothing to do", async () => {
  await using at = await openTestDatabase({ migrated: false });
  await using migrated = await openTestDatabase();
  await at.admin.query(await printMigrations(at.schema));
  expect(await at.database.migrationStatus()).toMatchObject({ pending: [], unknown: [] });
  expect(await at.database.migrate()).toEqual([]);
  const session = await (await at.database.repo("default")).create({}, context);
  await session.setName("works", context);
  expect(await columnsOf(at)).toEqual(await columnsOf(migrated));
});

test("nothing is created outside of the schema", async () => {
  await using at = await openTestDatabase({ migrated: false });
  const before = await relationsOutside(at);
  await at.database.migrate();
  expect(await relationsOutside(at)).toEqual(before);
});

test("a role that may not create the schema is told so, and nothing is created", async () => {
  await using at = await openTestDatabase({ migrated: false });
  const role = `guest_${at.schema}`;
  await at.admin.query(`create role ${role} login password 'guest'`);
  const url = new URL(at.connectionString);
  url.username = role;
  url.password = "guest";
  const guest = await openDatabase({ connectionString: url.href, schema: at.schema });
  try {
    await expect(guest.migrate()).rejects.toMatchObject({
      code: "database_permission",
      message: expect.stringContaining("permission denied for database"),
    });
  } finally {
    await guest.close();
    await at.admin.query(`drop role ${role}`);
  }
  expect(await at.database.migrationStatus()).toMatchObject({ applied: [] });
});

test("a role that owns nothing but an existing schema can migrate it", async () => {
  await using at = await openTestDatabase({ migrated: false });
  const role = `owner_${at.schema}`;
  await at.admin.query(
    `create role ${role} login password 'owner'; create schema "${at.schema}" authorization ${role}`,
  );
  const url = new URL(at.connectionString);
  url.username = role;
  url.password = "owner";
  const owner = await openDatabase({ connectionString: url.href, schema: at.schema });
  try {
    expect(await owner.migrate()).not.toEqual([]);
    await (await owner.repo("default")).create({}, context);
  } finally {
    await owner.close();
    await at.admin.query(`drop owned by ${role} cascade; drop role ${role}`);
  }
});

test("type parsers that the process has changed do not matter", async () => {
  await using at = await openTestDatabase();
  const pool = new pg.Pool({ connectionString: at.connectionString });
  const original = pg.types.getTypeParser(pg.types.builtins.INT8);
  pg.types.setTypeParser(pg.types.builtins.INT8, () => "broken" as never);
  pg.types.setTypeParser(pg.types.builtins.FLOAT8, () => "broken" as never);
  try {
    const database = await openDatabase({ pool, schema: at.schema });
    const session = await (await database.repo("default")).create({}, context);
    await session.setName("x", context);
    expect(await session.getStats(context)).toMatchObject({ messageCount: 0, usage: { totalTokens: 0 } });
    await database.close();
  } finally {
    pg.types.setTypeParser(pg.types.builtins.INT8, original);
    pg.types.setTypeParser(pg.types.builtins.FLOAT8, Number.parseFloat);
    await pool.end();
  }
});

type At = Awaited<ReturnType<typeof openTestDatabase>>;

async function columnsOf({ admin, schema }: At): Promise<unknown[]> {
  const { rows } = await admin.query(
    `select table_name, column_name, data_type, is_nullable, replace(column_default, $1, '') as column_default
     from information_schema.columns where table_schema = $1 order by 1, 2`,
    [schema],
  );
  expect(rows.length).toBeGreaterThan(0);
  return rows;
}

/** Relations of `public`, and those of no schema that a test made. */
async function relationsOutside({ admin, schema }: At): Promise<unknown[]> {
  const { rows } = await admin.query(
    `select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('public', 'pg_catalog') and n.nspname <> $1 order by 1, 2`,
    [schema],
  );
  return rows;
}
