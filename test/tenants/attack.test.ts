import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { list, value } from "../../src/contract/address.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { emptyUsage } from "../../src/contract/usage.ts";
import { appendList, insertEntry, insertUsage, setValue } from "../../src/contract/write.ts";
import { openDatabase } from "../../src/postgres/database.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

/**
 * An attacker with a connection of its own, as the application role and then as an analyst, sends SQL.
 *
 * Every attack goes to rows of another tenant that exist, and again to rows that do not and would look just like them.
 * The attacker knows all that is in them. Whatever comes back (rows, counts, errors with all their fields, notices,
 * copied lines) must be the same both times, and in the second answer nothing of the other tenant may appear at all.
 */

/** All texts that a tenant stores here begin with its word. Of one length, so that positions in errors agree. */
type Word = "attack" | "victim" | "nobody";

const slugOf = (word: Word) => `${word}-tenant`;
const tenantId = (word: Word) => tenantOf(slugOf(word)).tenantId;
const shows = (word: Word, text: string) => text.includes(word) || text.includes(tenantId(word));

/** The same with another tenant in the place of the first. */
function readdressed(text: string, from: Word, to: Word): string {
  return text.replaceAll(from, to).replaceAll(tenantId(from), tenantId(to));
}

/** A table as the catalog has it, so that a new one is attacked as well. */
interface Table {
  name: string;
  /** With its schema. */
  quoted: string;
  columns: string[];
  /** Those that are not generated, and their types. */
  stored: string[];
  types: string[];
  key: string[];
  /** What the application role may give a value, and change. */
  insertable: string[];
  updatable: string[];
}

/** As text, by column. */
type Row = Record<string, string | null>;

vi.setConfig({ testTimeout: 180_000 }); // tens of thousands of statements, perhaps on a busy machine

let at: TestDatabase;
/** A schema in which the attacker may create what it likes. */
let evil: string;
let analystRole: string;
/** Those that have a tenant. */
let tables: Table[];
/** One row of each table for each tenant; of nobody, what it would look like. */
const rows = new Map<string, Record<Word, Row>>();
const connections: Client[] = [];

beforeAll(async () => {
  at = await openTestDatabase();
  evil = `${at.schema}_evil`;
  analystRole = `${at.schema}_analyst`;
  await at.admin.query(`create schema ${evil} authorization ${at.applicationRole}`);
  await at.admin.query(`create role ${analystRole} login password 'x'`);
  await at.owner.migrate({ analystRoles: [analystRole] });
  tables = await readTables();
  for (const { quoted } of tables) {
    // The planner learns about the rows when a test says so.
    await at.admin.query(`alter table ${quoted} set (autovacuum_enabled = off)`);
  }
  for (const word of ["attack", "victim"] as const) await fill(word);
  for (const table of tables) {
    const victim = await readRow(table, "victim");
    const nobody = JSON.parse(readdressed(JSON.stringify(victim), "victim", "nobody")) as Row;
    rows.set(table.name, { attack: await readRow(table, "attack"), victim, nobody });
  }
  await plant(await connect());
});
afterEach(async () => {
  // Locks must not outlive their test.
  for (const client of connections) await client.query("rollback; begin");
});
afterAll(async () => {
  for (const client of connections) await client.end();
  await at.admin.query(`drop schema ${evil} cascade`);
  await at.admin.query(`drop owned by ${analystRole}; drop role ${analystRole}`);
  await at[Symbol.asyncDispose]();
});

async function readTables(): Promise<Table[]> {
  const may = (privilege: string) => `coalesce(array_agg(a.attname::text order by a.attnum) filter (
    where a.attgenerated = '' and has_column_privilege($2, t.oid, a.attnum, '${privilege}')), '{}')`;
  const found = await at.admin.query<Table>(
    `select t.relname as name, t.oid::regclass::text as quoted,
       array_agg(a.attname::text order by a.attnum) as columns,
       array_agg(a.attname::text order by a.attnum) filter (where a.attgenerated = '') as stored,
       array_agg(format_type(a.atttypid, null) order by a.attnum) filter (where a.attgenerated = '') as types,
       (select array_agg(k.attname::text order by position)
        from pg_index as i, unnest(i.indkey) with ordinality as c(number, position), pg_attribute as k
        where i.indrelid = t.oid and i.indisprimary and k.attrelid = t.oid and k.attnum = c.number
          and position <= i.indnkeyatts) as key,
       ${may("insert")} as insertable, ${may("update")} as updatable
     from pg_class as t join pg_attribute as a on a.attrelid = t.oid
     where t.relnamespace = $1::text::regnamespace and t.relkind in ('r', 'p') and a.attnum > 0
       and not a.attisdropped
     group by t.oid having bool_or(a.attname = 'tenant_id') order by t.relname`,
    [at.schema, at.applicationRole],
  );
  return found.rows;
}

/** Something of the tenant in every table. */
async function fill(word: Word): Promise<void> {
  const slug = slugOf(word);
  const text = (what: string) => `${word}-${what}`;
  await at.owner.tenants.create({
    slug,
    name: text("name"),
    settings: { secret: text("setting") },
    limits: { sessions: 100, storedBytes: 10_000_000 },
  });
  const repo = await at.database.repo(slug);
  const session = await repo.create(
    {
      id: text("session"),
      cwd: text("cwd"),
      parentSessionId: text("parent"),
      metadata: { secret: text("metadata") },
    },
    context,
  );
  await session.setName(text("title"), context);
  await session.createBranch(text("branch"), null, context);
  const message = { role: "user" as const, content: text("question"), timestamp: 1 };
  const usage = { id: text("usage"), entryId: text("entry"), adjustment: false, usage: emptyUsage() };
  const writes = [
    insertEntry({ id: text("entry"), parentId: null, type: "message", message }),
    insertUsage({ ...usage, details: { secret: text("details") } }),
    setValue(value(text("namespace"), text("key")), { secret: text("value") }),
    appendList(list(text("namespace"), text("key")), text("element")),
  ];
  await session.mutate((mutator) => mutator.commit(writes, context), context);
  await session.setLabel(text("entry"), text("label"), context);
  const archive = { format: 4, sha256: text("sha256"), bytes: 1 };
  await repo.importer.import(
    { id: text("imported"), createdAt: 1, legacyParentSessionPath: text("path") },
    () => ({ chunks: (async function* () {})(), finish: () => ({ nextSeq: 1, archive }) }),
    context,
  );
  await repo.close(context);
  for (const table of tables) await fillTable(table, word);
}

/** A table that the calls above know nothing of gets a row that its columns' types allow. */
async function fillTable({ quoted, stored, types }: Table, word: Word): Promise<void> {
  const { rowCount } = await at.admin.query(`select from ${quoted} where tenant_id = $1`, [tenantId(word)]);
  if (rowCount !== 0) return;
  const values = stored.map((column, index) => {
    if (column === "tenant_id") return tenantId(word);
    if (column === "period") return "day"; // of a budget; it takes nothing else
    const type = types[index] ?? "";
    if (type.startsWith("json")) return JSON.stringify(`${word}-${column}`);
    return /text|char/.test(type) ? `${word}-${column.replace(/_id$/, "")}` : "1";
  });
  await at.admin.query(
    `insert into ${quoted} (${stored.join(", ")}) values (${values.map(literal).join(", ")})`,
  );
}

async function readRow({ quoted, columns, key }: Table, word: Word): Promise<Row> {
  const found = await at.admin.query<Row>(
    `select ${columns.map((column) => `${column}::text`).join(", ")} from ${quoted} as t
     where tenant_id = $1 order by ${key.map((column) => `t.${column} desc`).join(", ")} limit 1`,
    [tenantId(word)],
  );
  return found.rows[0] as Row;
}

// The attacker.

/** All that came back. */
interface Answer {
  code: string | undefined;
  text: string;
}

class Attacker {
  readonly client: Client;
  /** Notices, and what is copied. */
  #heard: unknown[] = [];

  constructor(client: Client) {
    this.client = client;
    client.on("notice", (notice) => this.#heard.push(said(notice)));
    const { connection } = client as unknown as { connection: NodeJS.EventEmitter };
    connection.on("copyData", ({ chunk }: { chunk: Buffer }) => this.#heard.push(chunk.toString()));
  }

  /** Runs statements without parameters, up to the first that fails. */
  async run(sql: string): Promise<Answer> {
    this.#heard = [];
    try {
      const results = [await this.client.query({ text: sql, rowMode: "array" })].flat();
      const answers = results.map(({ command, rowCount, rows: found, fields }) => [
        command,
        rowCount,
        fields.map(({ name }) => name),
        found.map((row: unknown[]) => JSON.stringify(row)).sort(),
      ]);
      return { code: undefined, text: JSON.stringify([answers, this.#heard]) };
    } catch (error) {
      const { code = "none" } = error as { code?: string };
      return { code, text: JSON.stringify([said(error as Error), this.#heard]) };
    }
  }

  /** The same in a new transaction that begins like this. Ends the last one, and with it all that it left. */
  attempt(beginning: string, sql: string): Promise<Answer> {
    return this.run(`rollback; deallocate all; close all; begin; ${beginning}; ${sql}`);
  }
}

/** What a message of the server holds, apart from where in its source it comes from. */
function said(message: Error | object): unknown {
  const { file: _, line: __, routine: ___, length: ____, ...parts } = message as Record<string, unknown>;
  return { ...parts, message: (message as Error).message };
}

async function connect(user = at.applicationRole): Promise<Attacker> {
  const url = new URL(user === at.applicationRole ? at.connectionString : at.ownerConnectionString);
  if (user === analystRole) [url.username, url.password] = [user, "x"];
  const client = new Client(url.href);
  await client.connect();
  connections.push(client);
  await client.query("begin");
  return new Attacker(client);
}

/** Views, functions and an operator that, the attacker hopes, see more than it does. */
async function plant({ client }: Attacker): Promise<void> {
  await client.query(`
    create function ${evil}.peek(text) returns boolean language plpgsql immutable cost 0.0000001
      as $$ begin raise notice 'saw %', $1; return true; end $$;
    create function ${evil}.less(text, text) returns boolean language plpgsql immutable strict cost 0.0000001
      as $$ begin raise notice 'compared % with %', $1, $2; return $1 < $2; end $$;
    create operator ${evil}.<<< (
      leftarg = text, rightarg = text, procedure = ${evil}.less, restrict = scalarltsel, join = scalarltjoinsel);
    create operator ${evil}.=== (
      leftarg = text, rightarg = text, procedure = ${evil}.less, restrict = eqsel, join = eqjoinsel);
    create function ${evil}.keep(text, text) returns text language plpgsql
      as $$ begin raise notice 'kept %', $2; return $2; end $$;
    create aggregate ${evil}.collect(text) (sfunc = ${evil}.keep, stype = text)`);
  for (const { name, quoted } of tables) {
    await client.query(`
      create view ${evil}.plain_${name} as select * from ${quoted};
      create view ${evil}.barrier_${name} with (security_barrier) as select * from ${quoted};
      create view ${evil}.invoker_${name} with (security_invoker) as select * from ${quoted};
      create function ${evil}.invoker_${name}() returns setof ${quoted} language sql as 'select * from ${quoted}';
      create function ${evil}.definer_${name}() returns setof ${quoted} language plpgsql security definer
        as 'begin return query select * from ${quoted}; end'`);
  }
  await client.query("commit; begin");
}

/** How the attacker's transaction begins, and whose rows that lets it see. */
interface Setting {
  beginning: string;
  sees: "its own" | "nothing";
  /** No UUID. */
  isGarbage?: boolean;
}

const setTo = (word: Word) => `set local pi_sessions.tenant = '${tenantId(word)}'`;
const setToText = (text: string) => `set local pi_sessions.tenant = ${literal(text)}`;

/** With these, nothing is left out. */
const THOROUGHLY: ReadonlySet<string> = new Set(["its own tenant", "no tenant"]);

const ABSENT = tenantOf("absent").tenantId;

const SETTINGS = {
  "its own tenant": { beginning: setTo("attack"), sees: "its own" },
  "its own tenant for the session": {
    beginning: `set session pi_sessions.tenant = '${tenantId("attack")}'`,
    sees: "its own",
  },
  "its own tenant after another": {
    beginning: `${setTo("victim")}; savepoint s; ${setTo("attack")}`,
    sees: "its own",
  },
  "another tenant rolled back to its own": {
    beginning: `${setTo("attack")}; savepoint s; ${setTo("victim")}; rollback to s`,
    sees: "its own",
  },
  "its own tenant, and its role given again": {
    beginning: `${setTo("attack")}; set local role none; set local session authorization default`,
    sees: "its own",
  },
  "row security off": { beginning: `${setTo("attack")}; set local row_security = off`, sees: "nothing" },
  "no tenant": { beginning: "select 1", sees: "nothing" },
  "a tenant that does not exist": { beginning: setToText(ABSENT), sees: "nothing" },
  "an empty text": { beginning: setToText(""), sees: "nothing" },
  "another tenant until the last commit": {
    beginning: `${setTo("victim")}; commit; begin`,
    sees: "nothing",
  },
  "another tenant until a reset": {
    beginning: `${setTo("victim")}; reset pi_sessions.tenant`,
    sees: "nothing",
  },
  garbage: { beginning: setToText("garbage"), sees: "nothing", isGarbage: true },
  "two tenants": {
    beginning: setToText(`${ABSENT},${ABSENT}`),
    sees: "nothing",
    isGarbage: true,
  },
  "SQL for a tenant": { beginning: setToText("')::uuid or true --"), sees: "nothing", isGarbage: true },
} satisfies Record<string, Setting>;

// The attacks.

type Kind =
  | "select"
  | "copy to"
  | "insert"
  | "copy from"
  | "update"
  | "delete"
  | "merge"
  | "truncate"
  | "lock";
const KINDS: readonly Kind[] = [
  ...(["select", "copy to", "insert", "copy from", "update", "delete", "merge", "truncate", "lock"] as const),
];

interface Attack {
  kind: Kind;
  sql: string;
}

function literal(text: string | null | undefined): string {
  return typeof text === "string" ? `'${text.replaceAll("'", "''")}'` : "null";
}

/** A condition on the columns of `t`. */
function equal(columns: readonly string[], row: Row): string {
  return columns.map((column) => `t.${column} = ${literal(row[column])}`).join(" and ");
}

/** Ways to name rows of `t`: all, one, all of a tenant, and one without its tenant. */
function conditionsOn({ key, columns }: Table, target: Row): string[] {
  const others = key.length > 1 ? key.slice(1) : columns.slice(1, 2);
  return ["true", equal(key, target), equal(["tenant_id"], target), equal(others, target)];
}

/** Statements that read rows of `from`, which they call `t`. */
type Reading = (from: string, where: string) => string;

const READINGS: readonly Reading[] = [
  (from, where) => `select * from ${from} as t where ${where}`,
  (from, where) => `select tableoid::regclass, t from ${from} as t where ${where}`,
  (from, where) => `select count(*), json_agg(t), max(t::text) from ${from} as t where ${where}`,
  (from, where) => `select (select string_agg(t::text, ',') from ${from} as t where ${where})`,
  (from, where) => `select array(select t::text from ${from} as t where ${where})`,
  (from, where) => `select * from (select * from ${from} offset 0) as t where ${where}`,
  (from, where) => `with t as materialized (select * from ${from}) select * from t where ${where}`,
  (from, where) =>
    `with recursive r as (select t::text from ${from} as t where ${where} union select * from r) table r`,
  (from, where) => `select * from (values (1)) as v left join lateral (table ${from}) as t on ${where}`,
  (from, where) => `select * from ${from} as o full join ${from} as t using (tenant_id) where ${where}`,
  (from, where) =>
    `select * from ${from} as o where tenant_id in (select tenant_id from ${from} as t where ${where})`,
  (from, where) => `select * from ${from} as o where exists (select from ${from} as t where ${where})`,
  (from, where) =>
    `select t::text from ${from} as t where ${where} union all select t::text from ${from} as t`,
  (from, where) => `select row_number() over (order by tenant_id), t from ${from} as t where ${where}`,
  (from, where) =>
    `select tenant_id, count(*), max(t::text) from ${from} as t where ${where} group by rollup (1)`,
  (from, where) => `select t::text from ${from} as t tablesample system (100) where ${where}`,
  (from, where) => `select t::text from ${from} as t where (${where}) and ctid = any(array(
    select format('(%s,%s)', page, item)::tid from generate_series(0, 3) as page, generate_series(1, 60) as item))`,
  (from, where) => `declare c cursor for select t::text from ${from} as t where ${where}; fetch all c`,
  (from, where) =>
    `declare c scroll cursor for select t::text from ${from} as t where ${where}; fetch last c; fetch backward all c`,
  (from, where) => `prepare p as select t::text from ${from} as t where ${where}; execute p; execute p`,
  (
    from,
    where,
  ) => `set local plan_cache_mode = force_generic_plan; prepare p as select t::text from ${from} as t
    where ${where}; execute p`,
  (from, where) => `explain (analyze, costs off, timing off, summary off, buffers off)
    select * from ${from} as t where ${where}`,
  (from, where) => `set local enable_seqscan = off; set local enable_bitmapscan = off;
    select t::text from ${from} as t where ${where}`,
  (from, where) => `set local enable_indexscan = off; set local enable_bitmapscan = off;
    select t::text from ${from} as t where ${where}`,
  (from, where) => `do $f$ declare r record; begin
    for r in select t::text as row from ${from} as t where ${where} loop raise notice '%', r.row; end loop; end $f$`,
  ...["for update", "for no key update nowait", "for share skip locked", "for key share"].map(
    (lock): Reading =>
      (from, where) =>
        `select t::text from ${from} as t where ${where} ${lock}`,
  ),
];

/** These create something first. */
const CREATIONS: readonly Reading[] = [
  (from, where) => `create temp table stolen as select * from ${from} as t where ${where}; table stolen`,
  (from, where) => `select * into temp stolen from ${from} as t where ${where}; table stolen`,
  (from, where) => `create materialized view ${evil}.stolen as select * from ${from} as t where ${where};
    table ${evil}.stolen`,
  (from, where) =>
    `create view ${evil}.stolen as select * from ${from} as t where ${where}; table ${evil}.stolen`,
  (from, where) => `create function ${evil}.stolen() returns setof text language sql stable
    as $f$ select t::text from ${from} as t where ${where} $f$; select ${evil}.stolen()`,
  (from, where) => `create function ${evil}.stolen() returns setof text language plpgsql security definer
    as $f$ begin return query execute $q$ select t::text from ${from} as t where ${where} $q$; end $f$;
    select ${evil}.stolen()`,
];

function* reads(table: Table, target: Row, isBrief: boolean): Generator<Attack> {
  const { name, quoted, columns, stored } = table;
  const planted = ["plain_*", "barrier_*", "invoker_*", "invoker_*()", "definer_*()"].map(
    (pattern) => `${evil}.${pattern.replace("*", name)}`,
  );
  for (const where of conditionsOn(table, target).slice(0, isBrief ? 2 : 4)) {
    for (const reading of READINGS) yield { kind: "select", sql: reading(quoted, where) };
    for (const from of planted)
      yield { kind: "select", sql: `select t::text from ${from} as t where ${where}` };
    yield { kind: "copy to", sql: `copy (select * from ${quoted} as t where ${where}) to stdout` };
    yield {
      kind: "copy to",
      sql: `copy (select json_agg(t) from ${quoted} as t where ${where}) to stdout csv`,
    };
  }
  for (const options of ["", " (format binary)", " (format csv, header)"]) {
    yield { kind: "copy to", sql: `copy ${quoted} to stdout${options}` };
  }
  yield { kind: "copy to", sql: `copy ${quoted} to program 'cat'` };
  yield { kind: "copy to", sql: `copy ${quoted} to '/tmp/${evil}'` };
  if (isBrief) return;
  for (const creation of CREATIONS) {
    for (const where of conditionsOn(table, target).slice(0, 2)) {
      yield { kind: "select", sql: creation(quoted, where) };
    }
  }
  for (const column of columns) yield { kind: "select", sql: `select ${column} from ${quoted}` };
  for (const column of stored) yield { kind: "copy to", sql: `copy ${quoted} (${column}) to stdout` };
}

/** Rows of the attacker's own that refer to somebody else's, or have the same key. */
function mixtures({ stored }: Table, target: Row, own: Row): Row[] {
  const others = stored.filter((column) => column !== "tenant_id" && own[column] !== target[column]);
  const withThose = (names: string[]): Row => ({
    ...own,
    ...Object.fromEntries(names.map((column) => [column, target[column] ?? null])),
  });
  const keys = others.filter((column) => /_id$|^namespace$|^key$/.test(column));
  return [withThose(others), withThose(keys), ...keys.map((column) => withThose([column]))];
}

function* insertions(table: Table, target: Row, own: Row, isBrief: boolean): Generator<Attack> {
  const { name, quoted, stored, key, insertable } = table;
  const allowed = insertable.length === 0 ? [] : [insertable];
  const given = insertable.length === stored.length ? allowed : [stored, ...allowed];
  const mixed = mixtures(table, target, own);
  for (const names of given) {
    const into = `${quoted} as t (${names.join(", ")})`;
    const changed = names.find((column) => !key.includes(column)) ?? (names[0] as string);
    for (const row of [target, ...(isBrief ? mixed.slice(0, 2) : mixed)]) {
      const values = `(${names.map((column) => literal(row[column])).join(", ")})`;
      const update = `on conflict (${key.join(", ")}) do update`;
      for (const sql of [
        `insert into ${into} values ${values}`,
        `insert into ${into} values ${values} returning t::text`,
        `insert into ${into} values ${values} on conflict do nothing returning t::text`,
        `insert into ${into} values ${values} ${update} set ${changed} = excluded.${changed} returning t::text`,
        `insert into ${into} values ${values} ${update} set ${changed} = t.${changed} where true`,
        `with i as (insert into ${into} values ${values} returning t::text) table i`,
        `insert into ${evil}.plain_${name} (${names.join(", ")}) values ${values}`,
      ]) {
        yield { kind: "insert", sql };
      }
      yield {
        kind: "merge",
        sql: `merge into ${quoted} as t using (values (1)) as v on ${equal(key, row)} when matched then do nothing
          when not matched then insert (${names.join(", ")}) values ${values}`,
      };
    }
    yield {
      kind: "insert",
      sql: `insert into ${into} select ${names.join(", ")} from ${quoted} as t where ${equal(key, target)}`,
    };
    yield { kind: "copy from", sql: `copy ${quoted} (${names.join(", ")}) from stdin` };
  }
  yield { kind: "insert", sql: `insert into ${quoted} default values` };
  for (const source of ["stdin", "stdin (format binary)", "program 'cat'", `'/tmp/${evil}'`]) {
    yield { kind: "copy from", sql: `copy ${quoted} from ${source}` };
  }
}

function* updates(table: Table, target: Row, own: Row, isBrief: boolean): Generator<Attack> {
  const { name, quoted, stored, key, updatable } = table;
  const column = updatable[0] ?? (stored[0] as string);
  const set = `set ${column} = t.${column}`;
  for (const where of conditionsOn(table, target).slice(0, isBrief ? 2 : 4)) {
    const each = stored.map((one) => `update ${quoted} as t set ${one} = t.${one} where ${where}`);
    for (const sql of [
      ...(isBrief ? [] : each),
      `update ${quoted} as t ${set} where ${where} returning t::text`,
      `update ${quoted} as t set ${column} = ${literal(target[column])} where ${where} returning t::text`,
      `update ${quoted} as o ${set} from ${quoted} as t where ${where} returning o::text, t::text`,
      `with u as (update ${quoted} as t ${set} where ${where} returning t::text) table u`,
      `update ${quoted} as t set tenant_id = ${literal(own["tenant_id"])} where ${where}`,
      `update ${quoted} as t set tenant_id = ${literal(target["tenant_id"])} where ${where}`,
      `update ${evil}.plain_${name} as t ${set} where ${where}`,
      `update ${evil}.barrier_${name} as t ${set} where ${where} returning t::text`,
      `prepare p as update ${quoted} as t ${set} where ${where}; execute p`,
      `do $f$ begin update ${quoted} as t ${set} where ${where}; raise notice '%', found; end $f$`,
    ]) {
      yield { kind: "update", sql };
    }
    const merge = `merge into ${quoted} as t using (values (1)) as v on ${where} when matched then`;
    yield { kind: "merge", sql: `${merge} update ${set}` };
    yield { kind: "merge", sql: `${merge} do nothing` };
  }
  yield {
    kind: "update",
    sql: `update ${quoted} as t set tenant_id = ${literal(target["tenant_id"])} where ${equal(key, own)}`,
  };
}

const LOCK_MODES = [
  ...["access share", "row share", "row exclusive", "share update exclusive"],
  ...["share", "share row exclusive", "exclusive", "access exclusive"],
];

function* removals(table: Table, target: Row, isBrief: boolean): Generator<Attack> {
  const { name, quoted } = table;
  for (const where of conditionsOn(table, target).slice(0, isBrief ? 2 : 4)) {
    for (const sql of [
      `delete from ${quoted} as t where ${where}`,
      `delete from ${quoted} as t where ${where} returning t::text`,
      `delete from ${quoted} as o using ${quoted} as t where ${where} returning o::text, t::text`,
      `with d as (delete from ${quoted} as t where ${where} returning t::text) table d`,
      `delete from ${evil}.plain_${name} as t where ${where}`,
      `delete from ${evil}.invoker_${name} as t where ${where}`,
      `do $f$ begin delete from ${quoted} as t where ${where}; raise notice '%', found; end $f$`,
      `declare c cursor for select * from ${quoted} as t where ${where}; fetch c;
       delete from ${quoted} where current of c`,
    ]) {
      yield { kind: "delete", sql };
    }
    yield {
      kind: "merge",
      sql: `merge into ${quoted} as t using (values (1)) as v on ${where} when matched then delete`,
    };
  }
  for (const sql of [
    `truncate ${quoted}`,
    `truncate only ${quoted} restart identity`,
    `truncate ${quoted} cascade`,
  ]) {
    yield { kind: "truncate", sql };
  }
  for (const mode of LOCK_MODES) yield { kind: "lock", sql: `lock table ${quoted} in ${mode} mode nowait` };
}

type Attacks = (table: Table, target: Row, own: Row) => Iterable<Attack>;

const everything =
  (isBrief: boolean): Attacks =>
  (table, target, own) => [
    ...reads(table, target, isBrief),
    ...insertions(table, target, own, isBrief),
    ...updates(table, target, own, isBrief),
    ...removals(table, target, isBrief),
  ];

// Their outcome.

/** How many attacks were made, by role, setting, table and kind. */
const counts = new Map<string, number>();

function count(...cell: string[]): void {
  const name = cell.join(" / ");
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

const INSUFFICIENT_PRIVILEGE = "42501";
/** Also of a policy. Or a foreign key, a unique key or a check; COPY FROM under a policy; a cursor on no row. */
const REFUSALS: readonly string[] = [INSUFFICIENT_PRIVILEGE, "23503", "23505", "23514", "0A000", "24000"];
const INVALID_TEXT = "22P02";
const READING_KINDS: ReadonlySet<Kind> = new Set(["select", "copy to", "lock"]);

/** Attacks all tables from one connection. Resolves to what went wrong. */
async function attackAll(
  attacker: Attacker,
  how: string,
  { beginning, sees, isGarbage = false }: Setting,
  attacks: Attacks,
  refusals = REFUSALS,
): Promise<string[]> {
  const wrong: string[] = [];
  const before = await victimsRows();
  for (const table of tables) {
    const { attack: own, victim, nobody } = rows.get(table.name) as Record<Word, Row>;
    const imagined = [...attacks(table, nobody, own)];
    for (const [index, { kind, sql }] of [...attacks(table, victim, own)].entries()) {
      if (how !== "") count("application", how, table.name, kind);
      const complain = (problem: string) => wrong.push(`${problem.slice(0, 1_000)}: ${sql}`);
      const real = await attacker.attempt(beginning, sql);
      // Where no tenant was ever set on the connection, it has to stay so.
      if (real.code === undefined && !READING_KINDS.has(kind) && how !== "no tenant") {
        const after = await attacker.run(
          `set local row_security = on; ${setTo("victim")}; ${victimsRowsSql()}`,
        );
        if (!after.text.includes(before)) complain("changes rows of another tenant");
      }
      if (
        real.code !== undefined &&
        !refusals.includes(real.code) &&
        !(isGarbage && real.code === INVALID_TEXT)
      ) {
        complain(`fails with ${real.text}`);
      }
      const unreal = await attacker.attempt(beginning, (imagined[index] as Attack).sql);
      if (readdressed(real.text, "victim", "nobody") !== unreal.text) {
        complain(`answers ${real.text}, and where there is nothing ${unreal.text}`);
      }
      if (shows("victim", unreal.text)) complain(`shows another tenant in ${unreal.text}`);
      if (sees === "nothing" && shows("attack", unreal.text)) complain(`shows a tenant in ${unreal.text}`);
    }
  }
  await attacker.run("rollback; begin");
  return wrong;
}

/** A digest of all that the victim has. */
async function victimsRows(): Promise<string> {
  const { rows: found } = await at.admin.query<{ digest: string }>(victimsRowsSql());
  return found[0]?.digest as string;
}

function victimsRowsSql(): string {
  const each = tables.map(
    ({ quoted }) =>
      `(select string_agg(t::text, ',' order by t::text) from ${quoted} as t where tenant_id = '${tenantId("victim")}')`,
  );
  return `select md5(concat_ws('|', ${each.join(", ")})) as digest`;
}

describe("the attacker's means are good", () => {
  test("both tenants have something to find in every table", () => {
    expect(rows.size).toBeGreaterThanOrEqual(8);
    for (const [table, { attack, victim }] of rows) {
      expect([table, shows("attack", JSON.stringify(attack))]).toEqual([table, true]);
      expect([table, shows("victim", JSON.stringify(victim))]).toEqual([table, true]);
    }
  });

  test("they work for somebody whom no policy binds, on every table in every way", async () => {
    const superuser = await connect("superuser");
    const attacks = (ways: Attacks): Attacks =>
      function* (table, target, own) {
        for (const attack of ways(table, target, own)) {
          // These would reach the files of the server. A lock tells nobody anything.
          if (!/ (program|'\/tmp)/.test(attack.sql) && attack.kind !== "lock") yield attack;
        }
      };
    for (const ways of [everything(true), leaks]) {
      const wrong = await attackAll(superuser, "", SETTINGS["its own tenant"], attacks(ways));
      const successes = wrong.filter((line) => /^(shows|changes|answers)/.test(line)).join("\n");
      for (const { name, quoted } of tables) {
        for (const trace of ways === leaks ? ["peek", "collect", "<<<", "1 / "] : TRACES) {
          const sql = trace.replace("TABLE", quoted).replace("NAME", name);
          expect([sql, successes.includes(sql)]).toEqual([sql, true]);
        }
      }
    }
  });
});

/** How attacks of each kind look. */
const TRACES = [
  "from TABLE as t",
  "invoker_NAME as t",
  "invoker_NAME() as t",
  "copy TABLE to stdout",
  "insert into TABLE as t",
  "update TABLE as t",
  "delete from TABLE as t",
  "merge into TABLE as t",
  "truncate TABLE",
];

describe("the application role", () => {
  test.for(Object.keys(SETTINGS) as (keyof typeof SETTINGS)[])(
    "with %s set gets at nothing of another tenant",
    async (how) => {
      const wrong = await attackAll(await connect(), how, SETTINGS[how], everything(!THOROUGHLY.has(how)));
      expect(wrong.slice(0, 5)).toEqual([]);
    },
  );

  test("changes no entry and no row of the ledger, and empties no table, not even of its own", async () => {
    const attacker = await connect();
    for (const table of tables) {
      const { attack: own } = rows.get(table.name) as Record<Word, Row>;
      const isAppendOnly = ["entries", "usage_ledger"].includes(table.name);
      for (const { kind, sql } of [...updates(table, own, own, false), ...removals(table, own, false)]) {
        if (kind !== "truncate" && !(isAppendOnly && ["update", "delete", "merge"].includes(kind))) continue;
        // The one that changes nothing needs no right to.
        if (sql.endsWith("do nothing")) continue;
        count("application", "own rows", table.name, kind);
        const { code } = await attacker.attempt(setTo("attack"), sql);
        expect([code, sql]).toEqual([INSUFFICIENT_PRIVILEGE, sql]);
      }
    }
  });

  test("learns nothing through functions and errors that see a row before the policy does", async () => {
    const attacker = await connect();
    const refusals = [...REFUSALS, DIVISION_BY_ZERO, INVALID_TEXT];
    // In a filter, the policy stands beside the attacker's condition; else it is the condition of an index.
    const inFilter = "set local enable_indexscan = off; set local enable_bitmapscan = off";
    for (const [how, plan] of [
      ["its own tenant", "select 1"],
      ["its own tenant", inFilter],
      ["an empty text", inFilter],
    ] as const) {
      const { beginning, sees } = SETTINGS[how];
      const setting = { beginning: `${plan}; ${beginning}`, sees };
      const wrong = await attackAll(attacker, `${how}, by leaks`, setting, leaks, refusals);
      expect(wrong.slice(0, 5)).toEqual([]);
    }
  });

  test("gets nothing from this schema's functions, called for another tenant", async () => {
    const attacker = await connect();
    const before = await victimsRows();
    const { rows: functions } = await at.admin.query<{ name: string; types: string[] }>(
      `select oid::regproc::text as name, array(select format_type(t, null) from unnest(proargtypes) as t) as types
       from pg_proc where pronamespace = $1::text::regnamespace and provolatile <> 'i' and pronargs > 0`,
      [at.schema],
    );
    expect(functions.length).toBeGreaterThanOrEqual(6);
    for (const { name, types } of functions) {
      for (const text of ["session", "tenant"]) {
        const call = (word: Word) => {
          const values = types.map((type) => {
            const value = type.startsWith("uuid")
              ? `'${tenantId(word)}'`
              : type.startsWith("text")
                ? `'${word}-${text}'`
                : "1000000";
            return type.endsWith("[]") ? `array[${value}]` : value;
          });
          return `select ${name}(${values.join(", ")}); commit; begin`;
        };
        for (const [how, { beginning }] of Object.entries<Setting>(SETTINGS)) {
          if (how === "no tenant") continue;
          count("application", how, name, "call");
          const [real, unreal] = [
            await attacker.attempt(beginning, call("victim")),
            await attacker.attempt(beginning, call("nobody")),
          ];
          expect(readdressed(real.text, "victim", "nobody")).toBe(unreal.text);
          expect(real.code ?? "PS").toMatch(/^(PS.*|42501|22P02)$/);
        }
      }
    }
    expect(await victimsRows()).toBe(before);
  });
});

const DIVISION_BY_ZERO = "22012";

/** Statements that would tell of a row, were they to look at it before the policy. */
function* leaks(table: Table, target: Row): Generator<Attack> {
  const { quoted, columns } = table;
  for (const where of conditionsOn(table, target).slice(0, 2)) {
    const from = `from ${quoted} as t where ${where}`;
    for (const name of columns) {
      const column = `t.${name}::text`;
      const peek = `${evil}.peek(${column})`;
      const isVictims = `${column} like '%victim%'`;
      for (const sql of [
        `select ${from} and ${peek}`,
        `select from ${quoted} as t where ${peek} and ${where}`,
        `select ${from} and (${peek} or random() < 2)`,
        `select ${from} and 1 / (case when ${isVictims} then 0 else 1 end) = 1`,
        `select ${from} and case when ${isVictims} then ${column}::int = 1 else true end`,
        `select ${from} and ${column} operator(${evil}.<<<) 'z'`,
        `select from ${quoted} as t join (values ('x')) as v(x) on ${column} operator(${evil}.<<<) v.x where ${where}`,
        `select from ${quoted} as t, lateral ${evil}.peek(${column}) as l where ${where}`,
        `select ${evil}.collect(${column}) ${from}`,
        `select count(*) filter (where ${peek}) ${from} group by ${column} having ${evil}.peek(max(${column}))`,
        `select ${from} order by ${peek}, 1 / (case when ${isVictims} then 0 else 1 end)`,
        `select * from (select ${peek} ${from} offset 0) as s limit 1`,
      ]) {
        yield { kind: "select", sql };
      }
    }
  }
}

describe("a change of the setting", () => {
  /** Whose rows an answer shows. */
  const shown = ({ text }: Answer) => (["attack", "victim"] as const).filter((word) => shows(word, text));

  test("shows the tenant that is set when a statement runs, and never two", async () => {
    const attacker = await connect();
    for (const { name, quoted } of tables) {
      const preparations: [string, string][] = [
        ["select 1", `select t::text from ${quoted} as t`],
        [`prepare p as select t::text from ${quoted} as t`, "execute p"],
        [
          `set local plan_cache_mode = force_generic_plan; prepare p as select t::text from ${quoted} as t`,
          "execute p",
        ],
        ["select 1", `select t::text from ${evil}.plain_${name} as t`],
        ["select 1", `select t::text from ${evil}.invoker_${name}() as t`],
        ["select 1", `select t::text from ${evil}.definer_${name}() as t`],
        ["select 1", `copy ${quoted} to stdout`],
      ];
      for (const [preparation, read] of preparations) {
        count("application", "changed setting", name, "select");
        await attacker.attempt(setTo("attack"), preparation);
        for (const [set, expected] of [
          [setTo("attack"), ["attack"]],
          [setTo("victim"), ["victim"]],
          [setToText(""), []],
          [setTo("attack"), ["attack"]],
          [`savepoint s; ${setTo("victim")}`, ["victim"]],
          ["rollback to s", ["attack"]],
          [setToText(ABSENT), []],
          ["reset pi_sessions.tenant", []],
          [setTo("victim"), ["victim"]],
        ] as const) {
          await attacker.run(set);
          expect([read, set, shown(await attacker.run(read))]).toEqual([read, set, expected]);
        }
        await attacker.run("commit; begin");
        const kept = await attacker.run(read);
        expect([read, shown(kept)]).toEqual([read, []]);
      }
    }
  });

  test("a statement that the driver has prepared shows the tenant of each transaction", async () => {
    const { client } = await connect();
    for (const { name, quoted } of tables) {
      // The server takes a general plan from the sixth time on.
      for (const word of [..."avavavavavava"].map((letter) => (letter === "a" ? "attack" : "victim"))) {
        await client.query(`rollback; begin; ${setTo(word)}`);
        const { rows: found } = await client.query({ name, text: `select t::text from ${quoted} as t` });
        expect(shown({ code: undefined, text: JSON.stringify(found) })).toEqual([word]);
      }
    }
  });

  test("a cursor shows no tenant that was not set while it was open", async () => {
    const attacker = await connect();
    for (const { quoted } of tables) {
      const cursor = `declare c cursor for select t::text from ${quoted} as t`;
      for (const other of [setToText(""), setToText(ABSENT), "rollback to s"]) {
        count("application", "changed setting", quoted, "cursor");
        // Opened for nobody; the victim's setting is gone before it is read.
        await attacker.attempt(
          "savepoint s",
          `${cursor}; savepoint s; ${setTo("victim")}; select 1; ${other}`,
        );
        expect(shown(await attacker.run("fetch all c"))).toEqual([]);
        await attacker.attempt(
          setTo("attack"),
          `${cursor}; fetch 1 c; savepoint s; ${setTo("victim")}; ${other}`,
        );
        expect(shown(await attacker.run("fetch all c"))).not.toContain("victim");
      }
      // What is held after the end of the transaction is what it had found.
      await attacker.attempt(setTo("attack"), `${cursor.replace("for", "with hold for")}; commit; begin`);
      await attacker.run(setTo("victim"));
      expect(shown(await attacker.run("fetch all c; close c"))).toEqual(["attack"]);
    }
  });
});

describe("what the planner knows", () => {
  beforeAll(async () => {
    for (const { quoted } of tables) await at.admin.query(`analyze ${quoted}`);
  });

  test("cannot be read", async () => {
    const attacker = await connect();
    for (const view of ["pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"]) {
      const { text } = await attacker.attempt(
        setTo("attack"),
        `select s::text from ${view} as s where schemaname = '${at.schema}' and tablename not like 'kysely%'`,
      );
      expect(text).toContain('"SELECT",0');
    }
    for (const catalog of ["pg_statistic", "pg_statistic_ext_data"]) {
      const { code } = await attacker.attempt(setTo("attack"), `select * from ${catalog}`);
      expect(code).toBe(INSUFFICIENT_PRIVILEGE);
    }
  });

  test("is not handed to an operator of the attacker's", async () => {
    const attacker = await connect();
    for (const { name, quoted, columns } of tables) {
      for (const column of columns) {
        for (const operator of ["<<<", "==="]) {
          for (const from of [quoted, `${evil}.plain_${name}`, `${evil}.barrier_${name}`]) {
            count("application", "statistics", name, "plan");
            const { code, text } = await attacker.attempt(
              setTo("attack"),
              `explain select from ${from} as t where t.${column}::text operator(${evil}.${operator}) 'z'`,
            );
            expect(code).toBeUndefined();
            expect(shows("victim", text)).toBe(false);
          }
        }
      }
    }
    // There is nothing to hand out, not even to those who see everything; of a table that has statistics there is.
    const copy = `${evil}.analyzed`;
    await at.admin.query(
      `create table ${copy} as select session_id from ${at.schema}.sessions; analyze ${copy}`,
    );
    const superuser = await connect("superuser");
    const handed = async (table: string) => {
      const sql = `explain select from ${table} as t where t.session_id operator(${evil}.<<<) 'z'`;
      return shows("victim", (await superuser.attempt(setTo("attack"), sql)).text);
    };
    expect(await handed(`${at.schema}.sessions`)).toBe(false);
    expect(await handed(copy)).toBe(true);
  });

  test("cannot be guessed from its estimates", async () => {
    const attacker = await connect();
    const storage = await (await at.database.repo(slugOf("victim"))).createStorage(
      { id: "victim-large" },
      context,
    );
    const ask = (n: number) => ({ role: "user" as const, content: `victim-question ${n}`, timestamp: 1 });
    const questions = Array.from({ length: 500 }, (_, n) =>
      insertEntry({ id: `victim-${n}`, parentId: null, type: "message" as const, message: ask(n) }),
    );
    await storage.commit(questions, context);
    await storage.close(context);
    await at.admin.query(`analyze ${at.schema}.entries`);
    const estimate = async (condition: string) =>
      (await attacker.attempt(setTo("attack"), `explain select from ${at.schema}.entries where ${condition}`))
        .text;
    const rowsOf = (plan: string) => /rows=(\d+)/.exec(plan)?.[1];
    for (const [right, wrong] of [
      ["preview < 'victim-question 3'", "preview < 'somebody-else 3'"],
      ["session_id = 'victim-large'", "session_id = 'nobody-large'"],
      [`tenant_id = '${tenantId("victim")}'`, `tenant_id = '${tenantId("nobody")}'`],
    ] as const) {
      expect([right, rowsOf(await estimate(right))]).toEqual([right, rowsOf(await estimate(wrong))]);
    }
  });
});

describe("beyond the tables", () => {
  /** The protection as the catalog has it. */
  async function protection(): Promise<unknown> {
    const { rows: found } = await at.admin.query(
      `select array(select row(c.oid, relname, relowner, relacl, relrowsecurity, relforcerowsecurity, relnatts, relhastriggers,
           relhasrules, relhassubclass, array(select attacl::text from pg_attribute where attrelid = c.oid))::text
         from pg_class as c where relnamespace = $1::text::regnamespace order by c.oid) as relations,
       array(select p::text from pg_policy as p join pg_class as c on c.oid = polrelid
         where relnamespace = $1::text::regnamespace order by p.oid) as policies,
       array(select row(oid, proname, proowner, prosecdef, proleakproof, provolatile, prosrc, proconfig,
           coalesce(proacl, acldefault('f', proowner)))::text
         from pg_proc where pronamespace = $1::text::regnamespace order by oid) as functions,
       array(select r::text from pg_roles as r where rolname in ($2, $3) order by oid) as roles,
       array(select m::text from pg_auth_members as m where member::regrole::text in ($2, $3)) as memberships`,
      [at.schema, at.applicationRole, analystRole],
    );
    return found;
  }

  const onTable = (table: string, column: string) => [
    `alter table ${table} disable row level security`,
    `alter table ${table} no force row level security`,
    `alter table ${table} owner to current_user`,
    `alter table ${table} add column stolen int`,
    `alter table ${table} alter column ${column} drop not null`,
    `alter table ${table} rename to stolen`,
    `alter table ${table} set schema ${evil}`,
    `alter table ${table} replica identity full`,
    `alter table ${table} set (fillfactor = 50)`,
    `alter table ${table} disable trigger all`,
    `alter table ${table} drop constraint if exists stolen`,
    `drop table ${table} cascade`,
    `drop policy of_one_tenant on ${table}`,
    `alter policy of_one_tenant on ${table} using (true)`,
    `alter policy of_one_tenant on ${table} rename to stolen`,
    `create policy stolen on ${table} using (true)`,
    `create trigger stolen before insert on ${table} for each row execute function suppress_redundant_updates_trigger()`,
    `create rule stolen as on insert to ${table} do also select 1`,
    `create index on ${table} (${column})`,
    `create unique index on ${table} ((${evil}.peek(${column}::text)))`,
    `create statistics ${evil}.stolen on tenant_id, ${column} from ${table}`,
    `comment on table ${table} is 'stolen'`,
    `grant select on ${table} to public`,
    `grant all on ${table} to current_user with grant option`,
    `revoke all on ${table} from current_user`,
    `create publication stolen for table ${table}`,
    `create table ${evil}.stolen () inherits (${table})`,
    `create table ${evil}.stolen (tenant_id uuid references ${table})`,
    `alter table ${table} attach partition ${table} default`,
    `reindex table ${table}`,
    `vacuum ${table}`,
    `analyze ${table}`,
    `cluster ${table} using stolen`,
    `create or replace view ${table} as select 1`,
  ];

  const elsewhere = (owner: string, roles: readonly string[], functions: readonly string[]) => [
    ...roles.flatMap((role) => [
      `set role ${role}`,
      `set session authorization ${role}`,
      `grant ${role} to current_user`,
      `alter default privileges for role ${role} grant select on tables to public`,
      `alter schema ${evil} owner to ${role}`,
      `reassign owned by ${role} to current_user`,
      `drop owned by ${role}`,
      `alter role ${role} set pi_sessions.tenant = '${tenantId("victim")}'`,
      `alter role ${role} set row_security = off`,
    ]),
    ...functions.flatMap((name) => [
      `alter function ${name} security definer`,
      `alter function ${name} owner to current_user`,
      `drop function ${name} cascade`,
      `grant execute on function ${name} to current_user with grant option`,
    ]),
    ...["superuser", "bypassrls", "createrole", "createdb", "replication"].map(
      (what) => `alter role current_user ${what}`,
    ),
    "create role stolen bypassrls",
    `create or replace function ${at.schema}.tenant_id(slug text) returns uuid language sql as 'select null::uuid'`,
    `create function ${at.schema}.stolen() returns int language sql as 'select 1'`,
    `create table ${at.schema}.stolen (tenant_id uuid)`,
    `alter schema ${at.schema} owner to current_user`,
    `drop schema ${at.schema} cascade`,
    `grant all on schema ${at.schema} to current_user`,
    `alter database ${new URL(at.connectionString).pathname.slice(1)} set row_security = off`,
    "alter system set row_security = off",
    "set session_replication_role = replica",
    "set local session_preload_libraries = 'x'",
    `create function ${evil}.stolen(text) returns boolean language plpgsql leakproof as 'begin return true; end'`,
    `alter function ${evil}.peek leakproof`,
    `alter function ${evil}.peek owner to pg_read_all_data`,
    `create function ${evil}.stolen() returns int language c as 'x', 'y'`,
    `create function ${evil}.stolen() returns int language internal as 'int4in'`,
    `create operator class ${evil}.stolen for type uuid using btree as operator 1 <`,
    "create event trigger stolen on ddl_command_end execute function suppress_redundant_updates_trigger()",
    "create cast (uuid as int) without function",
    "create language plpython3u",
    "create foreign data wrapper stolen",
    "create subscription stolen connection '' publication p",
    "load 'pg_prewarm'",
    "update pg_class set relrowsecurity = false",
    "delete from pg_policy",
    "update pg_proc set proleakproof = true",
    "select * from pg_authid",
    "select * from pg_statistic",
    "select pg_read_file('PG_VERSION')",
    "select pg_ls_dir('.')",
    "select lo_import('/etc/passwd')",
    "select * from pg_hba_file_rules",
    "select pg_create_logical_replication_slot('stolen', 'test_decoding')",
    "select pg_reload_conf()",
    `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${owner}' limit 1`,
    "copy (select 1) to program 'cat'",
  ];

  /** Not permitted, not possible for anybody, or no more than a warning that nothing was done. */
  const isRefused = ({ code, text }: Answer) =>
    code === INSUFFICIENT_PRIVILEGE ||
    /role name \\".*\\" is reserved|cannot have explicit members|is not available/.test(text) ||
    /no privileges (were granted|could be revoked)|permission denied to|only table or database owner/.test(
      text,
    );

  test("nothing switches the protection off", async () => {
    const attacker = await connect();
    const before = await protection();
    const { rows: found } = await at.admin.query<{ owner: string; roles: string[]; functions: string[] }>(
      `select current_user as owner,
         array(select oid::regrole::text from pg_roles
               where rolname in (current_user, $2) or rolname ~ '^pg_(read|write|exec|signal|monitor)') as roles,
         array(select oid::regprocedure::text from pg_proc where pronamespace = $1::text::regnamespace) as functions`,
      [at.schema, analystRole],
    );
    const { owner = "", roles = [], functions = [] } = found[0] ?? {};
    expect(roles.length).toBeGreaterThanOrEqual(10);
    const statements = tables.flatMap(({ quoted, key }) => onTable(quoted, key.at(-1) as string));
    statements.push(...elsewhere(owner, roles, functions));
    await attacker.run("rollback");
    const wrong: unknown[] = [];
    for (const sql of statements) {
      count("application", "escalation", "", sql.replace(/ (\S+).*/s, " $1"));
      const answer = await attacker.run(sql);
      if (!isRefused(answer)) wrong.push([sql, answer.text]);
    }
    expect(wrong).toEqual([]);
    expect(await protection()).toEqual(before);
  });

  test("what others run at the moment shows their tenant's id and none of its data", async () => {
    const attacker = await connect();
    const seen: string[] = [];
    const look = async () =>
      seen.push(
        (await attacker.attempt(setTo("attack"), "select pid, query, state from pg_stat_activity")).text,
      );
    await at.database.withTenant(slugOf("victim"), async (kysely) => {
      await look();
      await kysely.selectFrom("sessions").selectAll().where("session_id", "=", "victim-session").execute();
      await look();
    });
    const repo = await at.database.repo(slugOf("victim"));
    const session = await repo.open({ id: "victim-session" }, context);
    await session.setName("victim-title", context);
    await look();
    await repo.close(context);
    for (const text of seen) expect(text).not.toContain("victim");
  });
});

describe("what the attacker plants in the owner's search path", () => {
  // As `public` was before PostgreSQL 15, where everybody could create.
  test("is not run by what the owner does", async () => {
    const attacker = await connect();
    const trap = "language plpgsql as $$ begin raise exception 'a trap runs as %', current_user; end $$";
    await attacker.client.query(`
      create function ${evil}.convert_to(text, text) returns bytea ${trap};
      create function ${evil}.hashtextextended(text, int) returns bigint ${trap};
      create function ${evil}.trap(text, varchar, text) returns text ${trap};
      create aggregate ${evil}.string_agg(varchar, text) (sfunc = ${evil}.trap, stype = text); commit; begin`);
    const url = new URL(at.ownerConnectionString);
    url.searchParams.set("options", `-c search_path=${evil}`);
    await using stack = new AsyncDisposableStack();
    const owner = await openDatabase({ connectionString: url.href, schema: at.schema });
    stack.defer(() => owner.close());
    const calls = [
      () => owner.migrate({ applicationRoles: [at.applicationRole] }),
      () => owner.tenants.rename(slugOf("attack"), "renamed"),
      () => owner.repo(slugOf("attack")),
    ];
    const outcomes = [];
    for (const call of calls) outcomes.push(await call().then(() => "done", String));
    expect(outcomes).toEqual(["done", "done", "done"]);
  });
});

/** The ledger, and what follows from it. */
const ANALYSTS_TABLES = new Set(["usage_ledger", "usage_sums", "usage_tenants"]);

describe("an analyst", () => {
  test.for(["its own tenant", "no tenant", "an empty text", "row security off", "garbage"] as const)(
    "with %s set reads the ledger of all tenants, its sums, and nothing else",
    async (how) => {
      const [analyst, { beginning }] = [await connect(analystRole), SETTINGS[how] as Setting];
      const before = await victimsRows();
      for (const table of tables) {
        const { attack: own, nobody } = rows.get(table.name) as Record<Word, Row>;
        for (const { kind, sql } of everything(how !== "its own tenant")(table, nobody, own)) {
          count("analyst", how, table.name, kind);
          const { code, text } = await analyst.attempt(beginning, sql);
          const mayRead =
            ANALYSTS_TABLES.has(table.name) &&
            (READING_KINDS.has(kind) || sql.endsWith("when matched then do nothing"));
          // The planner looks at the setting before anybody looks at the privilege.
          const allowed = [INSUFFICIENT_PRIVILEGE, ...(how === "garbage" ? [INVALID_TEXT] : [])];
          const isRefusal = code !== undefined && allowed.includes(code);
          expect([sql, text, isRefusal || (mayRead && code === undefined)]).toEqual([sql, text, true]);
          if (isRefusal) expect(shows("victim", text)).toBe(false);
        }
      }
      if (how !== "row security off") {
        const { text } = await analyst.attempt(beginning, `select * from ${at.schema}.usage_ledger`);
        expect([shows("victim", text), shows("attack", text)]).toEqual([true, true]);
      }
      expect(await victimsRows()).toBe(before);
    },
  );

  test("gets nothing from this schema's functions and views", async () => {
    const analyst = await connect(analystRole);
    const id = `'${tenantId("victim")}'`;
    for (const sql of [
      `select ${at.schema}.assert_writable(${id})`,
      `select ${at.schema}.admit_session(${id})`,
      `select ${at.schema}.charge_session(${id}, 'victim-session')`,
      `select ${at.schema}.reserve_bytes(${id}, 'victim-session', 1)`,
      `select ${at.schema}.roll_up_usage(${id})`,
      `select ${at.schema}.rebuild_usage(${id})`,
      `select ${at.schema}.forget_usage(${id}, 'victim-session')`,
      ...tables.map(({ name }) => `select * from ${evil}.plain_${name}`),
      `select * from ${at.schema}.kysely_migration_lock`,
      `create policy stolen on ${at.schema}.usage_ledger using (true)`,
      `alter table ${at.schema}.usage_ledger disable row level security`,
      `set role ${at.applicationRole}`,
    ]) {
      count("analyst", "others", "", "select");
      expect([sql, (await analyst.attempt("select 1", sql)).code]).toEqual([sql, INSUFFICIENT_PRIVILEGE]);
    }
  });
});

/** What this file amounts to, lest the matrix shrink unnoticed. */
test("every kind of attack was made on every table, with every setting", () => {
  expect(tables.length).toBeGreaterThanOrEqual(8);
  for (const { name } of tables) {
    for (const kind of KINDS) {
      for (const how of Object.keys(SETTINGS)) {
        const cell = `application / ${how} / ${name} / ${kind}`;
        expect([cell, counts.get(cell) ?? 0]).toEqual([cell, expect.toSatisfy((n: number) => n > 0)]);
      }
      const cell = `analyst / no tenant / ${name} / ${kind}`;
      expect([cell, counts.get(cell) ?? 0]).toEqual([cell, expect.toSatisfy((n: number) => n > 0)]);
    }
  }
  const total = [...counts.values()].reduce((sum, n) => sum + n, 0);
  expect(total).toBeGreaterThan(40_000);
});
