/**
 * What the operations of an open session touch does not grow with the session, whether PostgreSQL knows how large the
 * tables are or not: counted by the server, for plans that were made at either time.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  appendList,
  branchTip,
  BACKGROUND_CONTEXT as context,
  deleteList,
  deleteValue,
  emptyUsage,
  insertEntry,
  insertUsage,
  list,
  openDatabase,
  type PgStorage,
  setValue,
  value,
  type Write,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

const LARGE = 20_000;
const TIMES = 20;

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
  const repo = await at.database.repo("default");
  for (const [id, size] of [
    ["small", 100],
    ["large", LARGE],
  ] as const) {
    const storage = await repo.createStorage({ id }, context);
    await storage.commit(Array.from({ length: size }, (_, n) => writesOf(n)).flat(), context);
    await storage.close(context);
  }
});
afterAll(() => at[Symbol.asyncDispose]());

/** Long enough for an index of ids to look more expensive than one of numbers. */
const idOf = (what: string) => what.padEnd(400, ".");
const entry = (id: string, parentId: string | null) =>
  insertEntry({ id: idOf(id), parentId: parentId && idOf(parentId), type: "custom", customType: "x" });
const spent = (id: string) => insertUsage({ id: idOf(id), usage: emptyUsage(), adjustment: false });

function writesOf(n: number): Write[] {
  return [
    entry(`e${n}`, n === 0 ? null : `e${n - 1}`),
    spent(`u${n}`),
    setValue(value("app", `v${n}`), n),
    setValue(branchTip(`b${n}`), idOf(`e${n}`)),
    appendList(list("app", `l${n}`), n),
  ];
}

const OPERATIONS: Record<string, (storage: PgStorage, n: number) => Promise<unknown>> = {
  "appends an entry": (storage, n) => storage.commit([entry(`new ${n}`, "e50")], context),
  "appends usage": (storage, n) => storage.commit([spent(`new use ${n}`)], context),
  "sets a value": (storage, n) => storage.commit([setValue(value("app", `v${n}`), -1)], context),
  "deletes a value": (storage, n) => storage.commit([deleteValue(value("app", `v${n}`))], context),
  "appends to a list": (storage, n) => storage.commit([appendList(list("app", `l${n}`), -1)], context),
  "deletes a list": (storage, n) => storage.commit([deleteList(list("app", `l${n}`))], context),
  "gets entries": (storage, n) => storage.getEntries([`e${n}`, "e70", "nothing"].map(idOf), context),
  "gets a value": (storage, n) => storage.getValue(value("app", `v${n + 30}`), context),
  "reads a list": (storage, n) => storage.readList(list("app", `l${n + 30}`), undefined, context),
  "scans a branch": (storage) => storage.scanBranch({ start: idOf("e90"), limit: 5 }, context),
  "scans from the tip of a branch": (storage, n) => storage.scanTip(`b${n + 50}`, { limit: 5 }, context),
  "gets children": (storage) => storage.getChildren(idOf("e80"), {}, context),
  "scans entries": (storage) => storage.scanEntries({ limit: 5, order: "desc" }, context),
  "scans usage": (storage) => storage.scanUsage({ limit: 5 }, context),
};

/** Rows of all tables, and entries of all indexes, that the server has read so far. */
async function readSoFar(): Promise<number> {
  const { rows } = await at.admin.query<{ read: string }>(
    `select (select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables where schemaname = $1)
      + (select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes where schemaname = $1) as read`,
    [at.schema],
  );
  return Number(rows[0]?.read);
}

/** A backend reports what it has read before it disappears. */
async function touchedBy(id: string, work: (storage: PgStorage) => Promise<unknown>): Promise<number> {
  const name = `touched ${id}`;
  const { connectionString, schema } = at;
  const database = await openDatabase({ connectionString, schema, applicationName: name });
  const before = await readSoFar();
  await work(await (await database.repo("default")).openStorage({ id }, context));
  await database.close();
  const left = "select from pg_stat_activity where application_name = $1";
  await expect.poll(async () => (await at.admin.query(left, [name])).rowCount, { timeout: 20_000 }).toBe(0);
  return (await readSoFar()) - before;
}

test.each(["before", "after"])("%s the tables were analyzed", async (when) => {
  if (when === "after") {
    const tables = ["entries", "usage_ledger", "scalar_values", "list_values", "sessions"];
    for (const table of tables) await at.admin.query(`vacuum analyze "${at.schema}".${table}`);
  }
  for (const [what, operation] of Object.entries(OPERATIONS)) {
    for (const id of ["small", "large"]) {
      const touched = await touchedBy(id, async (storage) => {
        for (let n = 0; n < TIMES; n++) await operation(storage, when === "after" ? n + TIMES : n);
      });
      expect([what, id, touched]).toEqual([
        what,
        id,
        expect.toSatisfy((count: number) => count < TIMES * 30),
      ]);
    }
  }
});
