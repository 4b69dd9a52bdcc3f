import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { type Database, openDatabase } from "../../src/postgres/database.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
/** Roles of this file. Dropped at the end with what they own. */
const roles = { owner: "", application: "", analyst: "", created: "" };

beforeAll(async () => {
  at = await openTestDatabase({ migrated: false });
  for (const what of Object.keys(roles) as (keyof typeof roles)[]) roles[what] = `${at.schema}_${what}`;
  await at.admin.query(`
    create role ${roles.owner} login password 'x' nosuperuser nocreatedb nocreaterole;
    create role ${roles.application} login password 'x';
    create role ${roles.analyst} login password 'x';
    create schema ${at.schema} authorization ${roles.owner}`);
});
afterAll(async () => {
  const { rows } = await at.admin.query<{ rolname: string }>(
    "select rolname from pg_roles where rolname = any($1)",
    [Object.values(roles)],
  );
  for (const { rolname } of rows)
    await at.admin.query(`drop owned by ${rolname} cascade; drop role ${rolname}`);
  await at[Symbol.asyncDispose]();
});

async function as(role: string): Promise<Database> {
  const url = new URL(at.ownerConnectionString);
  url.username = role;
  url.password = "x";
  return await openDatabase({ connectionString: url.href, schema: at.schema });
}

describe("an owner without any privilege", () => {
  test("migrates, names roles, and administers the tenants although row-level security is forced", async () => {
    const owner = await as(roles.owner);
    await owner.migrate({ applicationRoles: [roles.application], analystRoles: [roles.analyst] });
    const application = await as(roles.application);
    await owner.tenants.create({ slug: "acme", limits: { sessions: 1, storedBytes: 10_000 } });
    const repo = await application.repo("acme");
    const session = await repo.create({ id: "s" }, context);
    await session.setName("x", context);
    await session.close(context);
    await expect(repo.create({}, context)).rejects.toMatchObject({ code: "tenant_limit" });
    expect((await owner.tenants.list()).map(({ slug }) => slug)).toEqual(["acme", "default"]);
    await owner.tenants.suspend("acme");
    await owner.tenants.resume("acme");
    expect(await owner.tenants.delete("acme", { confirm: "acme" })).toMatchObject({ sessions: 1, values: 1 });
    await application.close();
    await owner.close();
  });

  test("cannot create a role, and says who can", async () => {
    const owner = await as(roles.owner);
    await expect(owner.migrate({ applicationRoles: [roles.created] })).rejects.toMatchObject({
      code: "role_not_found",
      role: roles.created,
    });
    await owner.close();
  });

  test("is no role for applications, and an application no analyst", async () => {
    const owner = await as(roles.owner);
    for (const refused of [
      { applicationRoles: [roles.owner] },
      { analystRoles: [roles.application] },
      { applicationRoles: [roles.analyst] },
      { applicationRoles: [""] },
      { applicationRoles: ["a\0"] },
    ]) {
      await expect(owner.migrate(refused)).rejects.toMatchObject({ code: "invalid_option" });
    }
    await owner.close();
  });

  test("is not quite bound by the policies, and the check says why", async () => {
    const owner = await as(roles.owner);
    expect(await owner.checkIsolation("default")).toEqual({
      role: roles.owner,
      isBound: false,
      leaks: ["tenants", "usage_ledger", "usage_tenants", "usage_sums"],
      reason: "owns the tables",
    });
    await owner.close();
  });
});

test("a role that does not exist is created without login by one that may", async () => {
  await at.database.migrate({ applicationRoles: [roles.created] });
  const { rows } = await at.admin.query("select rolcanlogin from pg_roles where rolname = $1", [
    roles.created,
  ]);
  expect(rows).toEqual([{ rolcanlogin: false }]);
});

test("the isolation check finds what shows through, and leaves nothing behind", async () => {
  const application = await as(roles.application);
  const bound = { role: roles.application, isBound: true, leaks: [], reason: undefined };
  expect(await application.checkIsolation("default")).toEqual(bound);
  const open = `create policy open on ${at.schema}.list_values using (true)`;
  await at.admin.query(open);
  expect(await application.checkIsolation("default")).toMatchObject({
    isBound: false,
    leaks: ["list_values"],
  });
  await at.admin.query(`drop policy open on ${at.schema}.list_values`);
  await at.admin.query(`alter table ${at.schema}.scalar_values disable row level security`);
  expect(await application.checkIsolation("default")).toMatchObject({
    isBound: false,
    leaks: ["scalar_values", "writing"],
  });
  await at.admin.query(`alter table ${at.schema}.scalar_values enable row level security`);
  expect(await application.checkIsolation("default")).toEqual(bound);
  expect(await (await application.repo("default")).list(undefined, context)).toEqual([]);
  await application.close();
});

test("an analyst reads the ledger of all tenants and nothing else", async () => {
  const analyst = await as(roles.analyst);
  await expect(analyst.repo("default")).rejects.toMatchObject({ code: "database_permission" });
  await analyst.close();
});

test("a schema of before gets its tenants' new ids, sizes and policies", async () => {
  await using old = await openTestDatabase({ migrated: false });
  const first = await readFile(new URL("../../sql/0001_sessions.sql", import.meta.url), "utf8");
  const { schema } = old;
  await old.admin.query(`
    create schema ${schema};
    ${first.replaceAll("{schema}", schema)}
    create table ${schema}.kysely_migration (name varchar(255) primary key, timestamp varchar(255) not null);
    create table ${schema}.kysely_migration_lock (id varchar(255) primary key, is_locked integer not null);
    insert into ${schema}.kysely_migration_lock values ('migration_lock', 0);
    insert into ${schema}.kysely_migration values ('0001_sessions', '2026-01-01');
    insert into ${schema}.tenants (slug) values ('acme');
    insert into ${schema}.sessions (tenant_id, session_id, storage_version, created_at, modified_at, next_seq,
      message_count, total_input, total_output, total_cache_read, total_cache_write, total_tokens,
      total_cost_input, total_cost_output, total_cost_cache_read, total_cost_cache_write, total_cost)
    select tenant_id, 's', 1, 1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 from ${schema}.tenants;
    insert into ${schema}.entries (tenant_id, session_id, entry_id, seq, run, timestamp, type, custom_type, payload)
    select tenant_id, 's', 'e', 1, 1, 1, 'custom', 'x', '{"data":"é\\u0000"}' from ${schema}.tenants;
    insert into ${schema}.entries (tenant_id, session_id, entry_id, seq, run, timestamp, type, role, provider, model, payload)
    select tenant_id, 's', 'a', 5, 5, 7, 'message', 'assistant', 'acme', 'large', '{}' from ${schema}.tenants;
    insert into ${schema}.usage_ledger (tenant_id, session_id, usage_id, seq, timestamp, entry_id, adjustment, input, output,
      cache_read, cache_write, total_tokens, cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total, usage)
    select tenant_id, 's', 'u' || n, 5 + n, 9, case n when 1 then 'a' end, false, 1, 0, 0, 0, 1, 0.1, 0, 0, 0, 0.1, '{}'
    from ${schema}.tenants, generate_series(1, 2) as n;
    insert into ${schema}.scalar_values (tenant_id, session_id, namespace, key, seq, value)
    select tenant_id, 's', 'n', 'k', 2, '"v"' from ${schema}.tenants;
    insert into ${schema}.list_values (tenant_id, session_id, namespace, key, seq, value)
    select tenant_id, 's', 'n', 'k', 3, '[1]' from ${schema}.tenants`);
  await old.owner.migrate({ applicationRoles: [old.applicationRole] });
  const { rows } = await old.admin.query(
    `select slug, s.tenant_id, stored_bytes::int, payload_bytes from ${schema}.sessions as s
     join ${schema}.tenants using (tenant_id) join ${schema}.entries using (tenant_id, session_id)
     where entry_id = 'e' order by slug`,
  );
  const bytes = { stored_bytes: 19 + 2 + 2 * 2 + 3 + 3, payload_bytes: 19 };
  expect(rows).toEqual(
    ["acme", "default"].map((slug) => ({ slug, tenant_id: tenantOf(slug).tenantId, ...bytes })),
  );
  const { rows: ledger } = await old.admin.query(
    `select distinct usage_id, provider, model, role, entry_type, spent_at::int, root_session_id, position::int
     from ${schema}.usage_ledger order by usage_id`,
  );
  const family = { root_session_id: "s", position: 0 };
  const unknown = { provider: "unknown", model: "unknown", role: "unknown", entry_type: "unknown" };
  expect(ledger).toEqual([
    {
      usage_id: "u1",
      provider: "acme",
      model: "large",
      role: "assistant",
      entry_type: "message",
      spent_at: 7,
      ...family,
    },
    { usage_id: "u2", ...unknown, spent_at: 9, ...family },
  ]);
  const session = await (await old.owner.repo("acme")).open({ id: "s" }, context);
  expect(await session.getEntry("e", context)).toMatchObject({ data: "é\0", seq: 1 });
  await session.setName("goes on", context);
  await session.close(context);
});
