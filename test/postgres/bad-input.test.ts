import { createServer } from "node:net";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  appendList,
  branchTip,
  BACKGROUND_CONTEXT as context,
  type Database,
  insertEntry,
  insertUsage,
  list,
  openDatabase,
  PiSessionError,
  setValue,
  value,
  type Write,
  withAbortSignal,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  at = await openTestDatabase();
  repo = await at.database.repo("default");
});
afterAll(() => at[Symbol.asyncDispose]());

/** The typed error that `work` rejects with. Its message must go on after saying what happened. */
async function errorOf(work: () => Promise<unknown>): Promise<PiSessionError> {
  const error = await work().then(
    () => expect.unreachable("it was accepted"),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PiSessionError);
  const typed = error as PiSessionError;
  expect(typed.name).toBe(typed.constructor.name);
  expect(typed.message).toMatch(/[:,.] .+[.]$/s);
  return typed;
}

async function codeOf(work: () => Promise<unknown>): Promise<string> {
  return (await errorOf(work)).code;
}

const message = (id: string, parentId: string | null = null): Write =>
  insertEntry({ id, parentId, type: "message", message: { role: "user", content: "hi", timestamp: 1 } });

const usage = {
  input: 1,
  output: 1,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 2,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

/** A commit that is refused must leave no trace, the writes before the bad one included. */
async function expectNothingWritten(bad: Write[], ...codes: string[]): Promise<void> {
  const storage = await repo.createStorage({}, context);
  await storage.commit([message("root"), insertUsage({ id: "spent", usage, adjustment: false })], context);
  const before = await everything(storage);
  const good: Write[] = [
    message("good", "root"),
    setValue({ namespace: "app", key: "k", kind: "value" }, 1),
    appendList(list("app.list"), 1),
  ];
  expect(codes).toContain(await codeOf(() => storage.commit([...good, ...bad], context)));
  expect(await everything(storage)).toEqual(before);
  const next = await storage.commit([message("next", "root")], context);
  expect(next.firstSeq).toBe(3);
  await storage.close(context);
}

async function everything(storage: Awaited<ReturnType<PgSessionRepo["createStorage"]>>) {
  return {
    entries: await storage.scanEntries({}, context),
    usage: await storage.scanUsage({}, context),
    values: await storage.scanValues({ namespace: "app", key: "", kind: "value" }, context),
    list: await storage.readList({ namespace: "app.list", key: "", kind: "list" }, undefined, context),
    stats: await storage.getStats(context),
  };
}

const UNSTORABLE = { NUL: "a\0b", "a lone surrogate": "a\ud800b" };

describe.each(Object.entries(UNSTORABLE))("%s", (_name, text) => {
  const writes: Record<string, Write> = {
    "an entry id": message(text),
    "a parent id": message("x", text),
    "a custom type": insertEntry({ id: "x", parentId: null, type: "custom", customType: text }),
    "a usage id": insertUsage({ id: text, usage, adjustment: false }),
    "the entry id of a usage row": insertUsage({ id: "x", entryId: text, usage, adjustment: false }),
    "a key": setValue({ namespace: "app", key: text, kind: "value" }, 1),
    "a namespace": { kind: "list", op: "append", namespace: text, key: "", value: 1 },
  };
  test.each(Object.entries(writes))("in %s rejects the whole commit", async (_place, write) => {
    await expectNothingWritten([write], "invalid_text");
  });

  test("in a session id, a branch name or a tenant slug is refused", async () => {
    expect(await codeOf(() => repo.create({ id: text }, context))).toBe("invalid_text");
    expect(await codeOf(() => repo.create({ parentSessionId: text }, context))).toBe("invalid_text");
    expect(await codeOf(() => repo.open({ id: text }, context))).toBe("invalid_text");
    expect(await codeOf(() => at.database.repo(text))).toBe("invalid_text");
    const session = await repo.create({}, context);
    expect(await codeOf(() => session.createBranch(text, null, context))).toBe("invalid_text");
    expect(await codeOf(() => session.branch(text, context))).toBe("invalid_text");
    await session.close(context);
  });

  test("in a name, a label, a value or a payload comes back exactly", async () => {
    const session = await repo.create({}, context);
    const branch = await session.createBranch("main", null, context);
    const id = await branch.appendMessage({ role: "user", content: text, timestamp: 1 }, context);
    await branch.appendCustomEntry("note", { [text]: text }, context);
    await session.setName(text, context);
    await session.setLabel(id, text, context);
    expect(await session.getName(context)).toBe(text);
    expect(await session.getLabel(id, context)).toBe(text);
    const [note, first] = await branch.findEntries(undefined, context);
    expect(note).toMatchObject({ data: { [text]: text } });
    expect(first).toMatchObject({ message: { content: text } });
    const summary = (await repo.summarize(undefined, context)).find(
      ({ metadata }) => metadata.id === session.metadata.id,
    );
    expect(summary).toMatchObject({ name: "a\ufffdb", firstMessage: "a\ufffdb" });
    await session.close(context);
  });
});

describe("a commit is refused as a whole", () => {
  test("when an id is used by an entry", () => expectNothingWritten([message("root")], "duplicate_id"));
  test("when an id is used by a usage row", () => expectNothingWritten([message("spent")], "duplicate_id"));
  test("when a usage row takes an entry's id", () =>
    expectNothingWritten([insertUsage({ id: "root", usage, adjustment: false })], "duplicate_id"));
  test("when an id occurs twice in it", () =>
    expectNothingWritten([message("a"), message("a")], "duplicate_id"));
  test("when a parent is missing", () => expectNothingWritten([message("a", "nowhere")], "missing_parent"));
  test("when a parent comes later", () =>
    expectNothingWritten([message("a", "b"), message("b")], "missing_parent"));
  test("when a parent is a usage row", () => expectNothingWritten([message("a", "spent")], "missing_parent"));
  test("when a value cannot be written as JSON", () =>
    expectNothingWritten([setValue({ namespace: "a", key: "", kind: "value" }, 1n)], "invalid_write"));
  test("when a value is undefined", () =>
    expectNothingWritten([setValue({ namespace: "a", key: "", kind: "value" }, undefined)], "invalid_write"));
  test("when tokens are no whole number", () =>
    expectNothingWritten(
      [insertUsage({ id: "u", usage: { ...usage, input: 1.5 }, adjustment: false })],
      "invalid_usage",
    ));
  test("when a cost is not finite", () =>
    expectNothingWritten(
      [
        insertUsage({
          id: "u",
          usage: { ...usage, cost: { ...usage.cost, total: Number.NaN } },
          adjustment: false,
        }),
      ],
      "invalid_usage",
    ));
  test("when the kind of a write is unknown", () =>
    expectNothingWritten([{ kind: "nonsense" } as unknown as Write], "invalid_write"));
  test("when an id is too long for an index", () =>
    expectNothingWritten([message("x".repeat(513))], "invalid_text"));
  test("when a payload is nested too deeply", () =>
    expectNothingWritten(
      [
        setValue(
          { namespace: "a", key: "", kind: "value" },
          JSON.parse("[".repeat(100_000) + "]".repeat(100_000)),
        ),
      ],
      // Newer Node.js can write it, and then it is the server that cannot read it.
      "invalid_write",
      "database_limit",
    ));
});

describe("a session", () => {
  test("that is unknown cannot be opened, deleted or forked", async () => {
    expect(await codeOf(() => repo.open({ id: "nowhere" }, context))).toBe("session_not_found");
    expect(await codeOf(() => repo.delete({ id: "nowhere" }, context))).toBe("session_not_found");
    expect(await codeOf(() => repo.fork({ id: "nowhere" }, { scope: "tree" }, context))).toBe(
      "session_not_found",
    );
  });

  test("that is closed rejects everything, and closing it twice is fine", async () => {
    const session = await repo.create({}, context);
    const branch = await session.createBranch("main", null, context);
    await session.close(context);
    await session.close(context);
    expect(await codeOf(() => session.getStats(context))).toBe("session_closed");
    expect(await codeOf(() => session.setName("x", context))).toBe("session_closed");
    expect(await codeOf(() => branch.appendCustomEntry("x", undefined, context))).toBe("session_closed");
  });

  test("that is open is neither opened again nor deleted", async () => {
    const session = await repo.create({}, context);
    expect(await codeOf(() => repo.open(session.metadata, context))).toBe("session_open");
    expect(await codeOf(() => repo.delete(session.metadata, context))).toBe("session_open");
    await session.close(context);
  });

  test("that was deleted by somebody else says so when it is written", async () => {
    const session = await repo.create({}, context);
    await (await at.database.repo("default")).delete(session.metadata, context);
    expect(await codeOf(() => session.setName("x", context))).toBe("session_not_found");
    await session.close(context);
  });

  test("rejects an unknown start, branch and target, and a list limit of 0", async () => {
    const session = await repo.create({}, context);
    expect(await codeOf(() => session.scanBranch({ start: "nowhere" }, context))).toBe("unknown_entry");
    expect(await codeOf(() => session.createBranch("main", "nowhere", context))).toBe("unknown_entry");
    expect(await codeOf(() => session.readList(list("a"), { limit: 0 }, context))).toBe("invalid_option");
    const main = await session.createBranch("main", null, context);
    expect(await codeOf(() => session.createBranch("main", null, context))).toBe("branch_exists");
    await session.deleteValue({ namespace: "pi.branch.tip", key: "main", kind: "value" }, context);
    expect(await codeOf(() => main.getTipId(context))).toBe("branch_not_found");
    expect(await codeOf(() => main.findEntries(undefined, context))).toBe("branch_not_found");
    expect(await codeOf(() => main.findEntry(undefined, context))).toBe("branch_not_found");
    await session.close(context);
  });

  test("finds what a branch ends with, whatever was stored as its tip", async () => {
    const session = await repo.create({}, context);
    const ids = ["5", "null", "plain", 'quote"', "back\\slash", "line\nbreak", ""];
    await session.mutate(
      (mutation) =>
        mutation.commit(
          ids.map((id) => message(id)),
          context,
        ),
      context,
    );
    const main = await session.createBranch("main", null, context);
    expect(await main.findEntries(undefined, context)).toEqual([]);
    for (const id of ids) {
      await session.setValue(branchTip("main"), id, context);
      expect((await main.findEntry({ type: "message" }, context))?.id).toBe(id);
    }
    const tips: [unknown, string][] = [
      ["nowhere", "unknown_entry"],
      ["no\u0000where", "invalid_text"],
      ["no\ud800where", "invalid_text"],
      [5, "invalid_text"],
      [["plain"], "invalid_text"],
      [{ id: "plain" }, "invalid_text"],
    ];
    for (const [tip, code] of tips) {
      await session.setValue(value<unknown>(branchTip("main").namespace, "main"), tip, context);
      expect(await codeOf(() => main.findEntries(undefined, context)), JSON.stringify(tip)).toBe(code);
    }
    await session.close(context);
  });

  test("rejects with the signal's reason when its context is aborted, and writes nothing", async () => {
    const session = await repo.create({}, context);
    const reason = new Error("enough");
    const aborted = withAbortSignal(AbortSignal.abort(reason), context);
    await expect(session.setName("x", aborted)).rejects.toBe(reason);
    await expect(session.getStats(aborted)).rejects.toBe(reason);
    expect(await session.getName(context)).toBeUndefined();
    await session.close(context);
  });
});

describe("a database", () => {
  test("without the tenant says which", async () => {
    expect(await errorOf(() => at.database.repo("nobody"))).toMatchObject({
      code: "tenant_not_found",
      tenant: "nobody",
    });
    expect(await codeOf(() => at.database.tenants.create({ slug: "default" }))).toBe("tenant_exists");
  });

  test("that nothing serves is reported at once", async () => {
    const unused = await unusedPort();
    const connectionString = `postgresql://user:secret@127.0.0.1:${unused}/nothing`;
    const error = await errorOf(() => openDatabase({ connectionString }));
    expect(error.code).toBe("database_unreachable");
    expect(error.message).not.toContain("secret");
    expect(await codeOf(() => openDatabase({ connectionString: "mysql://x" }))).toBe("invalid_option");
  });

  test("with a wrong password or name is reported as unreachable", async () => {
    const url = new URL(at.connectionString);
    url.pathname = "/no_such_database";
    expect(await codeOf(() => openDatabase({ connectionString: url.href }))).toBe("database_unreachable");
  });

  const operations = (database: Database): (() => Promise<unknown>)[] => [
    () => database.repo("default"),
    () => database.withTenant("default", async () => {}),
    () => database.tenants.list(),
    () => database.tenants.create({ slug: "acme" }),
    () => database.usage.report({ tenant: "default" }, context),
    () => database.usage.rollUp({ tenant: "default" }, context),
    () => database.usage.changes({ tenant: "default" }, context).next(),
    () => database.usage.budget.list("default", context),
    () => database.usage.afterRestore(context),
  ];

  test("that is not migrated is not migrated silently", async () => {
    await using fresh = await openTestDatabase({ migrated: false });
    for (const operation of operations(fresh.database)) {
      expect(await codeOf(operation)).toBe("database_not_migrated");
    }
    const { rows } = await fresh.admin.query("select from pg_namespace where nspname = $1", [fresh.schema]);
    expect(rows).toHaveLength(0);
  });

  test("that is newer than the code is refused", async () => {
    await using newer = await openTestDatabase();
    await newer.admin.query(
      `insert into "${newer.schema}".kysely_migration values ('9999_future', '2999-01-01T00:00:00.000Z')`,
    );
    for (const operation of operations(newer.database)) {
      expect(await codeOf(operation)).toBe("database_too_new");
    }
    expect(await codeOf(() => newer.database.migrate())).toBe("database_too_new");
  });

  test.each(["x".repeat(200), 'a"b', "a;b", "", "pg_mine", "public", "1a"])(
    "refuses the schema name %j",
    async (schema) => {
      expect(await codeOf(() => openDatabase({ connectionString: at.connectionString, schema }))).toBe(
        "invalid_schema_name",
      );
    },
  );

  test("tells a role without rights what is missing, and writes nothing", async () => {
    const role = `weak_${at.schema}`;
    await at.admin.query(`create role ${role} login password 'weak'`);
    const url = new URL(at.connectionString);
    url.username = role;
    url.password = "weak";
    const weak = await openDatabase({ connectionString: url.href, schema: at.schema });
    try {
      expect(await codeOf(() => weak.repo("default"))).toBe("database_permission");
      expect(await codeOf(() => weak.migrate())).toBe("database_permission");
    } finally {
      await weak.close();
      await at.admin.query(`drop role ${role}`);
    }
  });

  test("survives the death of idle connections, its own and those of a pool of yours", async () => {
    const applicationName = `idle_${at.schema}`;
    const pool = new pg.Pool({ connectionString: at.connectionString, application_name: applicationName });
    const { schema, connectionString } = at;
    const databases = [
      await openDatabase({ connectionString, schema, applicationName }),
      await openDatabase({ pool, schema }),
    ];
    for (const database of databases) await (await database.repo("default")).list(undefined, context);
    const killed = await at.admin.query(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = $1",
      [applicationName],
    );
    expect(killed.rows.length).toBeGreaterThanOrEqual(2);
    for (const database of databases) {
      await retryOnce(async () => (await database.repo("default")).list(undefined, context));
      await database.close();
    }
    await pool.query("select 1"); // still open: it is not ours to close
    await pool.end();
  });

  test("that is closed rejects, and closing it twice is fine", async () => {
    const { schema, connectionString } = at;
    const database = await openDatabase({ connectionString, schema });
    const session = await (await database.repo("default")).create({}, context);
    await database.close();
    await database.close();
    expect(await codeOf(() => database.repo("default"))).toBe("database_closed");
    expect(await codeOf(() => session.getStats(context))).toBe("session_closed");
  });
});

/** A connection may be taken from the pool before its end has arrived; then the error is typed, and the next call works. */
async function retryOnce<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    expect(error).toMatchObject({ code: "database_connection_lost" });
    return work();
  }
}

async function unusedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  await new Promise((closed) => server.close(closed));
  return typeof address === "object" && address !== null ? address.port : 0;
}
