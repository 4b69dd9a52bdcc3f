import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

/** Walks the catalog, so that whatever a migration adds is held to the same rules. */
let at: TestDatabase;
let analystRole: string;

beforeAll(async () => {
  at = await openTestDatabase();
  analystRole = `${at.schema}_analyst`;
  await at.owner.migrate({ analystRoles: [analystRole] });
});
afterAll(async () => {
  await at.admin.query(`drop owned by ${analystRole}; drop role ${analystRole}`);
  await at[Symbol.asyncDispose]();
});

/** What a migration may create without a tenant: the migrator's own. */
const WITHOUT_TENANT = ["kysely_migration", "kysely_migration_lock"];

const ONE_TENANT =
  "(tenant_id = (NULLIF(current_setting('pi_sessions.tenant'::text, true), ''::text))::uuid)";

/** Rows of a query on the schema, whose name is `$1`; each of them as one line. */
async function lines(query: string, ...values: unknown[]): Promise<string[]> {
  const { rows } = await at.admin.query({ text: query, values: [at.schema, ...values], rowMode: "array" });
  return rows.map((row: unknown[]) => row.map((value) => JSON.stringify(value) ?? "null").join(" "));
}

/** Its ordinary and partitioned tables; `t` is the row of `pg_class`. */
const TABLES = `pg_class as t where t.relnamespace = $1::text::regnamespace and t.relkind in ('r', 'p')`;
const HAS_TENANT = `exists (select from pg_attribute as a
  where a.attrelid = t.oid and a.attname = 'tenant_id' and not a.attisdropped)`;
const OF_TENANT = `${TABLES} and ${HAS_TENANT}`;

async function tenantTables(): Promise<string[]> {
  const { rows } = await at.admin.query<{ relname: string }>(
    `select relname from ${OF_TENANT} order by relname`,
    [at.schema],
  );
  return rows.map(({ relname }) => relname);
}

test("every table belongs to tenants, except for the migrator's", async () => {
  const shared = await lines(`select relname from ${TABLES} and not ${HAS_TENANT} order by relname`);
  expect(shared).toEqual(WITHOUT_TENANT.map((table) => JSON.stringify(table)));
  expect((await tenantTables()).length).toBeGreaterThanOrEqual(8);
});

test("a schema holds tables and their indexes, and nothing that could go round the policies", async () => {
  const others = `select relkind, relname from pg_class as t where t.relnamespace = $1::text::regnamespace
    and t.relkind not in ('r', 'p', 'i', 'I', 't') and not (
      t.relkind = 'v' and coalesce('security_invoker=true' = any(t.reloptions), false))`;
  expect(await lines(others)).toEqual([]);
  expect(
    await lines(`select proname from pg_proc where pronamespace = $1::text::regnamespace and prosecdef`),
  ).toEqual([]);
  expect(
    await lines(
      `select t.relname, tgname from pg_trigger as g, ${TABLES} and g.tgrelid = t.oid and not tgisinternal`,
    ),
  ).toEqual([]);
  expect(
    await lines(`select t.relname, rulename from pg_rewrite as r, ${TABLES} and r.ev_class = t.oid`),
  ).toEqual([]);
  expect(
    await lines(`select t.relname, i.inhrelid::regclass::text from pg_inherits as i, ${TABLES}
      and t.oid in (i.inhrelid, i.inhparent) and not t.relispartition and t.relkind <> 'p'`),
  ).toEqual([]);
});

test("row-level security is enabled and forced on every table of tenants", async () => {
  const unprotected = `select relname from ${OF_TENANT} and not (t.relrowsecurity and t.relforcerowsecurity)`;
  expect(await lines(unprotected)).toEqual([]);
});

test("no column of a table of tenants has statistics, which would be of all tenants", async () => {
  const attributes = `select t.relname, a.attname from pg_attribute as a, ${OF_TENANT} and a.attrelid = t.oid
    and a.attnum > 0 and not a.attisdropped`;
  expect((await lines(attributes)).length).toBeGreaterThan(80);
  expect(await lines(`${attributes} and coalesce(a.attstattarget, -1) <> 0`)).toEqual([]);
  // An expression in an index has some of its own.
  expect(
    await lines(`select i.indexrelid::regclass from pg_index as i, ${OF_TENANT} and i.indrelid = t.oid
      and i.indexprs is not null`),
  ).toEqual([]);
});

test("every table of tenants has the policy of one tenant, exactly and for everybody", async () => {
  const policies = `
    select t.relname, p.polpermissive, p.polcmd, p.polroles = '{0}', pg_get_expr(p.polqual, p.polrelid),
      pg_get_expr(p.polwithcheck, p.polrelid)
    from pg_policy as p, ${OF_TENANT} and p.polrelid = t.oid and p.polname = 'of_one_tenant' order by t.relname`;
  const expected = (await tenantTables()).map((table) =>
    [table, true, "*", true, ONE_TENANT, null].map((value) => JSON.stringify(value)).join(" "),
  );
  expect(await lines(policies)).toEqual(expected);
});

test("every other policy is the owner's on tenants and their counters, or lets owner and analysts read the ledger", async () => {
  const policies = `
    select t.relname, p.polname, p.polpermissive, p.polcmd, pg_get_expr(p.polqual, p.polrelid),
      pg_get_expr(p.polwithcheck, p.polrelid),
      (select string_agg(case r.oid when 0 then 'public' when t.relowner then 'the owner'
         else pg_get_userbyid(r.oid)::text end, ', ') from unnest(p.polroles) as r(oid))
    from pg_policy as p, ${TABLES} and p.polrelid = t.oid and p.polname <> 'of_one_tenant'
    order by t.relname, p.polname`;
  expect(await lines(policies)).toEqual([
    '"tenant_storage" "all_for_owner" true "*" "true" null "the owner"',
    '"tenants" "all_for_owner" true "*" "true" null "the owner"',
    `"usage_ledger" "all_for_analyst" true "r" "true" null "${analystRole}"`,
    '"usage_ledger" "all_for_owner" true "r" "true" null "the owner"',
    `"usage_sums" "all_for_analyst" true "r" "true" null "${analystRole}"`,
    '"usage_sums" "all_for_owner" true "r" "true" null "the owner"',
    `"usage_tenants" "all_for_analyst" true "r" "true" null "${analystRole}"`,
    '"usage_tenants" "all_for_owner" true "r" "true" null "the owner"',
  ]);
});

test("the tenant is a uuid, never null, and leads every index and key", async () => {
  const columns = `select t.relname, format_type(a.atttypid, a.atttypmod), a.attnotnull
    from pg_attribute as a, ${OF_TENANT} and a.attrelid = t.oid and a.attname = 'tenant_id'
    and (a.atttypid <> 'uuid'::regtype or not a.attnotnull)`;
  expect(await lines(columns)).toEqual([]);

  const columnName = (relation: string, number: string) =>
    `(select attname from pg_attribute where attrelid = ${relation} and attnum = ${number})`;
  const indexes = `select t.relname, i.indexrelid::regclass::text from pg_index as i, ${OF_TENANT}
    and i.indrelid = t.oid and ${columnName("t.oid", "i.indkey[0]")} is distinct from 'tenant_id'`;
  expect(await lines(indexes)).toEqual([]);

  const keys = `select t.relname, c.conname from pg_constraint as c, ${OF_TENANT} and c.conrelid = t.oid
    and (c.contype in ('p', 'u', 'f', 'x') and ${columnName("t.oid", "c.conkey[1]")} is distinct from 'tenant_id'
      or c.contype = 'f' and ${columnName("c.confrelid", "c.confkey[1]")} is distinct from 'tenant_id')`;
  expect(await lines(keys)).toEqual([]);

  const keyless = `select t.relname from ${OF_TENANT} and not exists (
    select from pg_constraint as c where c.conrelid = t.oid and c.contype = 'p')`;
  expect(await lines(keyless)).toEqual([]);
});

test("what belongs to a session goes with it, and a tenant that has sessions stays", async () => {
  const references = `
    select t.relname, c.confrelid::regclass::oid = (format('%I.tenants', $1::text))::regclass as to_tenants,
      c.confdeltype, c.confupdtype, c.condeferrable, c.convalidated
    from pg_constraint as c, ${TABLES} and c.conrelid = t.oid and c.contype = 'f' order by 1, 2`;
  const [cascades, restricts] = ['"c" "a" false true', '"a" "a" false true'];
  const ofSessions = await lines(`select relname from ${OF_TENANT} and exists (select from pg_attribute as a
    where a.attrelid = t.oid and a.attname = 'session_id' and not a.attisdropped) order by 1`);
  const expected = ofSessions
    .filter((table) => table !== '"sessions"')
    .map((table) => `${table} false ${cascades}`);
  const ofTenants = ["budgets", "tenant_storage", "usage_sums", "usage_tenants"];
  expected.push(`"sessions" true ${restricts}`, ...ofTenants.map((table) => `"${table}" true ${cascades}`));
  expect(await lines(references)).toEqual(expected.sort());
  const targets = `select distinct c.confrelid::regclass::text from pg_constraint as c, ${TABLES}
    and c.conrelid = t.oid and c.contype = 'f' order by 1`;
  expect(await lines(targets)).toEqual(["sessions", "tenants"].map((name) => `"${at.schema}.${name}"`));
});

test("the application role is bound: no superuser, no member of another role, owner of nothing", async () => {
  const { rows } = await at.admin.query(
    `select rolsuper, rolbypassrls, rolcreaterole, rolreplication,
       array(select m.roleid::regrole::text from pg_auth_members as m where m.member = r.oid) as member_of,
       pg_has_role(r.oid, (select t.relowner from ${TABLES} and relname = 'sessions'), 'member') as is_owner,
       has_schema_privilege(r.oid, $1, 'create') as may_create,
       exists (select from pg_class as c where c.relowner = r.oid
               and c.relnamespace = $1::text::regnamespace) as owns_tables
     from pg_roles as r where rolname = $2`,
    [at.schema, at.applicationRole],
  );
  expect(rows).toEqual([
    {
      rolsuper: false,
      rolbypassrls: false,
      rolcreaterole: false,
      rolreplication: false,
      member_of: [],
      is_owner: false,
      may_create: false,
      owns_tables: false,
    },
  ]);
});

/** What a role may do with each table, as a whole or with some column. */
async function privileges(role: string): Promise<Record<string, string>> {
  const { rows } = await at.admin.query<{ relname: string; may: string[] }>(
    `select t.relname, array(
       select p from unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) as p
       where has_table_privilege($2, t.oid, p)
     ) || array(
       select format('%s (%s)', p, string_agg(a.attname, ', ' order by a.attname))
       from unnest(array['select', 'insert', 'update', 'references']) as p, pg_attribute as a
       where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
         and has_column_privilege($2, t.oid, a.attnum, p) and not has_table_privilege($2, t.oid, p)
       group by p
     ) as may
     from ${TABLES}`,
    [at.schema, role],
  );
  return Object.fromEntries(rows.map(({ relname, may }) => [relname, may.join(", ")]));
}

test("the application role may do this with the tables, and no more", async () => {
  const { tenants, sessions, session_terms, scalar_values, list_values, tenant_storage, ...appended } =
    await privileges(at.applicationRole);
  const { usage_tenants, usage_sums, budgets, ...others } = appended;
  expect({ usage_tenants, usage_sums, budgets }).toEqual({
    budgets: "select, insert, update, delete",
    usage_tenants: "select, insert, update",
    usage_sums: "select, insert, update, delete",
  });
  expect({ tenants, sessions, session_terms, scalar_values, list_values, tenant_storage }).toEqual({
    tenants:
      "select, insert (name, settings, slug, tenant_id), update (billing_dimensions, exhausted_until, hard_budgets, name)",
    sessions: "select, insert, update, delete",
    session_terms: "select, insert, delete",
    scalar_values: "select, insert, update, delete",
    list_values: "select, insert, delete",
    tenant_storage: "select, update",
  });
  for (const table of WITHOUT_TENANT) {
    expect(others[table]).toBe("select");
    delete others[table];
  }
  // Everything else, the entries and the ledger first of all, is appended to.
  expect(Object.keys(others)).toEqual(expect.arrayContaining(["entries", "usage_ledger", "archives"]));
  for (const table in others) expect(`${table}: ${others[table]}`).toBe(`${table}: select, insert`);
});

test("an analyst may read the ledger, its sums and the version of the schema, and nothing else", async () => {
  const { kysely_migration, usage_ledger, usage_sums, usage_tenants, ...others } =
    await privileges(analystRole);
  for (const privilege of [kysely_migration, usage_ledger, usage_sums, usage_tenants])
    expect(privilege).toBe("select");
  expect(Object.values(others).filter((may) => may !== "")).toEqual([]);
});

test("everybody else may do nothing, and nobody may pass on what was granted", async () => {
  const grants = `
    select t.relname, coalesce(g.grantee::regrole::text, 'public'), g.privilege_type, g.is_grantable
    from (select oid, relname, relowner, relnamespace, relkind, relacl from pg_class
          union all
          select c.oid, c.relname || '.' || a.attname, c.relowner, c.relnamespace, c.relkind, a.attacl
          from pg_class as c join pg_attribute as a on a.attrelid = c.oid) as t, aclexplode(t.relacl) as g
    where t.relnamespace = $1::text::regnamespace and g.grantee <> t.relowner
      and (g.is_grantable or g.grantee = 0 or g.grantee::regrole::text <> all($2))`;
  expect(await lines(grants, [at.applicationRole, analystRole])).toEqual([]);
  const { rows } = await at.admin.query(
    `select coalesce(g.grantee::regrole::text, 'public') as role, g.privilege_type, g.is_grantable
     from pg_namespace as n, aclexplode(n.nspacl) as g where nspname = $1 and g.grantee <> n.nspowner order by 1`,
    [at.schema],
  );
  const usage = (role: string) => ({ role, privilege_type: "USAGE", is_grantable: false });
  expect(rows).toEqual([at.applicationRole, analystRole].sort().map(usage));
});

test("the isolation check looks at every table of tenants", async () => {
  const application = await openDatabase({ connectionString: at.connectionString, schema: at.schema });
  try {
    for (const table of await tenantTables()) {
      if (table === "tenant_storage") await at.owner.tenants.setLimits("default", { sessions: 10 });
      await at.admin.query(`create policy open on ${at.schema}.${table} using (true)`);
      const { leaks } = await application.checkIsolation("default");
      await at.admin.query(`drop policy open on ${at.schema}.${table}`);
      expect(leaks).toContain(table);
    }
    expect(await application.checkIsolation("default")).toMatchObject({ isBound: true, leaks: [] });
  } finally {
    await application.close();
  }
});

/** All that is in a database, apart from what every database of the server shares. */
const CREATED = `
  select 'schema ' || nspname from pg_namespace
  where nspname !~ '^pg_(toast_)?temp_'
  union all select 'relation ' || oid::regclass from pg_class where relnamespace not in (
    select oid from pg_namespace where nspname ~ '^pg_toast|^pg_temp')
  union all select 'function ' || oid::regprocedure from pg_proc
  union all select 'type ' || typnamespace::regnamespace || '.' || typname from pg_type where typnamespace not in (
    select oid from pg_namespace where nspname ~ '^pg_toast|^pg_temp')
  union all select 'operator ' || oid::regoperator from pg_operator
  union all select 'collation ' || collnamespace::regnamespace || '.' || collname from pg_collation
  union all select 'cast ' || castsource::regtype || ' ' || casttarget::regtype from pg_cast
  union all select 'extension ' || extname from pg_extension
  union all select 'event trigger ' || evtname from pg_event_trigger
  union all select 'publication ' || pubname from pg_publication
  union all select 'default privileges ' || defaclrole::regrole from pg_default_acl`;

test("nothing is created outside of the schema", async () => {
  const name = `${at.schema}_alone`;
  await at.admin.query(`create database ${name} template template0`);
  const url = new URL(at.ownerConnectionString);
  url.pathname = `/${name}`;
  const client = new Client(url.href);
  try {
    await client.connect();
    const created = async () => (await client.query({ text: CREATED, rowMode: "array" })).rows.flat();
    const before = new Set(await created());
    const owner = await openDatabase({ connectionString: url.href, schema: at.schema });
    await owner.migrate({ applicationRoles: [at.applicationRole], analystRoles: [analystRole] });
    const repo = await owner.repo("default");
    await (await repo.create({}, context)).close(context);
    await owner.close();
    const added = (await created()).filter((object) => !before.has(object));
    expect(added).toContain(`schema ${at.schema}`);
    const outside = added.filter((object) => !object.includes(`${at.schema}.`));
    expect(outside).toEqual([`schema ${at.schema}`]);
  } finally {
    await client.end();
    await at.admin.query(`drop database ${name} with (force)`);
  }
});
