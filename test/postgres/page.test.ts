import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  branchTip,
  BACKGROUND_CONTEXT as context,
  insertEntry,
  type PageOptions,
  type ReadonlyJsonObject,
  type SessionSummary,
  setValue,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

/** A tenant of its own. */
async function openTenant(slug: string): Promise<PgSessionRepo> {
  await at.database.tenants.create({ slug });
  return at.database.repo(slug);
}

async function allPages(repo: PgSessionRepo, options: PageOptions): Promise<SessionSummary[]> {
  const found: SessionSummary[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await repo.page({ ...options, ...(cursor === undefined ? {} : { cursor }) }, context);
    found.push(...page.sessions);
    if (page.next === undefined) return found;
    cursor = page.next;
  }
}

const idsOf = (sessions: readonly SessionSummary[]) => sessions.map(({ metadata }) => metadata.id);

describe("what a page shows", () => {
  test("of each session: name, first message, directory, parent, times, counts, usage, tip of main, metadata", async () => {
    const repo = await openTenant("shows");
    const metadata = { userId: "u1", tags: ["a", "b"], nested: { n: 1.5, nothing: null } };
    const session = await repo.create({ id: "s", cwd: "/srv", parentSessionId: "p", metadata }, context);
    const main = await session.createBranch("main", null, context);
    await main.appendMessage({ role: "user", content: "hello\n\0 \ud800 world", timestamp: 1 }, context);
    const tip = await main.appendMessage({ role: "user", content: "again", timestamp: 1 }, context);
    await session.setName("named \0", context);
    const { sessions, next } = await repo.page({}, context);
    expect(next).toBeUndefined();
    expect(sessions).toEqual([
      {
        metadata: {
          id: "s",
          createdAt: session.metadata.createdAt,
          storageVersion: 1,
          cwd: "/srv",
          parentSessionId: "p",
          metadata,
        },
        name: "named \ufffd",
        firstMessage: "hello \ufffd \ufffd world",
        modifiedAt: expect.any(Number),
        stats: await session.getStats(context),
        mainTipId: tip,
      },
    ]);
    expect(session.metadata.metadata).toEqual(metadata);
    expect((await repo.list(undefined, context))[0]?.metadata).toEqual(metadata);
    await session.close(context);
  });

  test("tips of main that are no entry, or not there, and names that fill megabytes", async () => {
    const repo = await openTenant("odd");
    for (const id of ["a", "b", "c"]) await (await repo.create({ id }, context)).close(context);
    const storage = await repo.openStorage({ id: "a" }, context);
    await storage.commit([setValue(branchTip("main"), 5 as never)], context);
    const named = await repo.open({ id: "b" }, context);
    await named.createBranch("main", null, context);
    await named.setName(`🎉${"x".repeat(1_000_000)}`, context);
    const { sessions } = await repo.page({ sort: "name" }, context);
    expect(sessions.map(({ mainTipId }) => mainTipId)).toEqual([null, undefined, undefined]);
    expect(idsOf(sessions)).toEqual(["b", "a", "c"]);
    expect(idsOf((await repo.page({ namePrefix: "🎉x" }, context)).sessions)).toEqual(["b"]);
    expect(idsOf((await repo.page({ namePrefix: `🎉${"x".repeat(300)}` }, context)).sessions)).toEqual(["b"]);
    await repo.close(context);
  });
});

describe("metadata", () => {
  test.each([
    ["a list", []],
    ["null", null],
    ["text", "x"],
    ["more than 16 KB", { x: "x".repeat(16 * 1024) }],
    ["a NUL", { x: "a\0" }],
    ["half a character in a key", { "\ud800": 1 }],
    ["too deep", JSON.parse(`${'{"x":'.repeat(40)}1${"}".repeat(40)}`)],
    ["a circle", circle()],
  ])("refuses %s", async (_what, metadata) => {
    const repo = await at.database.repo("default");
    const refused = { code: "invalid_option", option: "metadata" };
    const create = () => repo.create({ metadata: metadata as ReadonlyJsonObject }, context);
    await expect((async () => create())()).rejects.toMatchObject(refused);
    await expect(
      (async () => repo.page({ metadata: metadata as ReadonlyJsonObject }, context))(),
    ).rejects.toMatchObject(refused);
    expect(await repo.list({ limit: 1 }, context)).toEqual([]);
  });

  test("of exactly 16 KB is kept, and found by any of its values", async () => {
    const repo = await openTenant("large");
    const metadata = { a: "x", b: "é".repeat((16 * 1024 - 16) / 2) };
    expect(Buffer.byteLength(JSON.stringify(metadata))).toBe(16 * 1024);
    await (await repo.create({ id: "s", metadata }, context)).close(context);
    expect(idsOf(await allPages(repo, { metadata }))).toEqual(["s"]);
    expect(idsOf(await allPages(repo, { metadata: { b: metadata.b } }))).toEqual(["s"]);
  });

  test("is replaced, and moves no tip, no sequence and no time", async () => {
    const repo = await openTenant("replaced");
    const session = await repo.create({ id: "s", metadata: { user: "u1", old: true } }, context);
    const main = await session.createBranch("main", null, context);
    await main.appendCustomEntry("x", 1, context);
    const [before] = (await repo.page({}, context)).sessions;
    await repo.setMetadata({ id: "s" }, { user: "u2" }, context);
    const [after] = (await repo.page({}, context)).sessions;
    expect(after).toEqual({ ...before, metadata: { ...before?.metadata, metadata: { user: "u2" } } });
    const found = async (metadata: ReadonlyJsonObject) => idsOf(await allPages(repo, { metadata }));
    expect(await found({ user: "u1" })).toEqual([]);
    expect(await found({ old: true })).toEqual([]);
    expect(await found({ user: "u2" })).toEqual(["s"]);
    await main.appendCustomEntry("x", 2, context);
    expect(await session.getStats(context)).toMatchObject({ messageCount: 0 });
    await repo.setMetadata({ id: "s" }, {}, context);
    expect((await repo.list(undefined, context))[0]).not.toHaveProperty("metadata");
    await expect(repo.setMetadata({ id: "none" }, {}, context)).rejects.toMatchObject({
      code: "session_not_found",
    });
    await session.close(context);
  });

  test("goes with a fork, so whoever finds the source finds it", async () => {
    const repo = await openTenant("forked");
    const source = await repo.create({ id: "source", metadata: { user: "u1" } }, context);
    const fork = await repo.fork({ id: "source" }, { scope: "tree", id: "fork" }, context);
    expect(fork.metadata.metadata).toEqual({ user: "u1" });
    expect(idsOf(await allPages(repo, { metadata: { user: "u1" } })).sort()).toEqual(["fork", "source"]);
    await repo.setMetadata({ id: "source" }, { user: "u2" }, context);
    expect(idsOf(await allPages(repo, { metadata: { user: "u1" } }))).toEqual(["fork"]);
    await source.close(context);
    await fork.close(context);
    await repo.delete({ id: "fork" }, context);
    expect(idsOf(await allPages(repo, { metadata: { user: "u1" } }))).toEqual([]);
  });
});

function circle(): object {
  const self: Record<string, unknown> = {};
  self["self"] = self;
  return self;
}

describe("pages", () => {
  test("agree with a model in every order, with every filter and of every size", async () => {
    const repo = await openTenant("model");
    const value = fc.oneof(
      fc.constantFrom("a", "b", 1, 1.5, true, null),
      fc.array(fc.constantFrom("a", 1), { maxLength: 3 }),
    );
    const metadata = fc.dictionary(
      fc.constantFrom("x", "y", "z"),
      fc.oneof(value, fc.dictionary(fc.constantFrom("x", "y"), value, { maxKeys: 2 })),
      { maxKeys: 3 },
    );
    const name = fc.constantFrom("", "a", "ab", "A", "ä", "🎉", "%", "a_c", "\u{10ffff}", "zz");
    const seeds = fc.sample(
      fc.record({
        cwd: fc.option(fc.constantFrom("/a", "/b", `/${"long".repeat(100)}1`, `/${"long".repeat(100)}2`), {
          nil: undefined,
        }),
        parentSessionId: fc.option(fc.constantFrom("p1", "p2"), { nil: undefined }),
        name: fc.option(name, { nil: undefined }),
        metadata,
      }),
      { numRuns: 120, seed: 7 },
    );
    for (const [index, { cwd, parentSessionId, name, metadata }] of seeds.entries()) {
      const session = await repo.create(
        {
          id: `s${index % 2}${index}`,
          metadata: metadata as ReadonlyJsonObject,
          ...(cwd === undefined ? {} : { cwd }),
          ...(parentSessionId === undefined ? {} : { parentSessionId }),
        },
        context,
      );
      if (name !== undefined) await session.setName(name, context);
      await session.close(context);
    }
    // Ties, and times that lie apart.
    await at.admin.query(
      `update "${at.schema}".sessions set created_at = 1000 * (length(session_id) + ascii(right(session_id, 1)) % 7),
         modified_at = 20000 * (ascii(right(session_id, 1)) % 11) + length(session_id)
       where tenant_id = "${at.schema}".tenant_id('model')`,
    );
    await at.admin.query(
      `update "${at.schema}".session_terms as t set created_at = s.created_at from "${at.schema}".sessions as s
       where s.tenant_id = t.tenant_id and s.session_id = t.session_id`,
    );
    const all = await allPages(repo, { limit: 1000 });
    expect(all).toHaveLength(seeds.length);

    const time = fc.nat({ max: 230_000 });
    const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });
    const options = fc.record({
      sort: optional(fc.constantFrom("created", "modified", "name")),
      order: optional(fc.constantFrom("asc", "desc")),
      limit: fc.integer({ min: 1, max: 40 }),
      cwd: optional(fc.constantFrom("/a", "/b", "/c", `/${"long".repeat(100)}2`)),
      parentSessionId: optional(fc.constantFrom("p1", "p3")),
      namePrefix: optional(name),
      createdFrom: optional(fc.nat({ max: 15_000 })),
      createdTo: optional(fc.nat({ max: 15_000 })),
      modifiedFrom: optional(time),
      modifiedTo: optional(time),
      metadata: optional(metadata),
    });
    await fc.assert(
      fc.asyncProperty(options, async (given) => {
        const options = Object.fromEntries(
          Object.entries(given).filter(([, value]) => value !== undefined),
        ) as PageOptions;
        expect(idsOf(await allPages(repo, options))).toEqual(idsOf(model(all, options)));
      }),
      { numRuns: 300 },
    );
  });

  test("cover exactly all sessions while others are created, renamed and deleted", async () => {
    const repo = await openTenant("busy");
    const stays = Array.from({ length: 60 }, (_, index) => `stays ${index}`);
    const goes = Array.from({ length: 30 }, (_, index) => `goes ${index}`);
    for (const id of [...stays, ...goes]) await (await repo.create({ id }, context)).close(context);
    let stop = false;
    let round = 0;
    const busy = (async () => {
      for (; !stop; round++) {
        await (await repo.create({ id: `new ${round}` }, context)).close(context);
        const gone = goes.pop();
        if (gone !== undefined) await repo.delete({ id: gone }, context);
        const renamed = await repo.open({ id: stays[round % stays.length] as string }, context);
        await renamed.setName(`name ${round}`, context);
        await renamed.close(context);
      }
    })();
    for (const sort of ["created", "created", "created"] as const) {
      for (const order of ["asc", "desc"] as const) {
        const ids = idsOf(await allPages(repo, { sort, order, limit: 7 }));
        expect(new Set(ids).size).toBe(ids.length);
        expect(ids.filter((id) => id.startsWith("stays"))).toHaveLength(stays.length);
      }
    }
    stop = true;
    await busy;
    expect(round).toBeGreaterThan(0);
  });

  test("of a tenant hold none of another's", async () => {
    const [one, two] = [await openTenant("one"), await openTenant("two")];
    for (const repo of [one, two]) {
      const own = repo === one ? "one" : "two";
      const session = await repo.create({ id: "same", cwd: "/same", metadata: { own, same: 1 } }, context);
      await session.setName(own, context);
      await session.close(context);
    }
    for (const filter of [
      {},
      { cwd: "/same" },
      { metadata: { same: 1 } },
      { sort: "name" },
    ] as PageOptions[]) {
      expect((await one.page(filter, context)).sessions.map(({ name }) => name)).toEqual(["one"]);
      expect((await two.page(filter, context)).sessions.map(({ name }) => name)).toEqual(["two"]);
    }
  });
});

/** Sorted and filtered by hand. */
function model(all: readonly SessionSummary[], options: PageOptions): SessionSummary[] {
  const { sort = "created", order = sort === "name" ? "asc" : "desc" } = options;
  const key = ({ metadata, name, modifiedAt }: SessionSummary) =>
    ({ created: metadata.createdAt, modified: modifiedAt, name: name ?? "\u{10ffff}" })[sort];
  const direction = order === "asc" ? 1 : -1;
  const compare = (left: string | number, right: string | number) =>
    typeof left === "number" && typeof right === "number"
      ? left - right
      : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)));
  return all
    .filter(
      ({ metadata, name, modifiedAt }) =>
        (options.cwd === undefined || metadata.cwd === options.cwd) &&
        (options.parentSessionId === undefined || metadata.parentSessionId === options.parentSessionId) &&
        (options.namePrefix === undefined || name?.startsWith(options.namePrefix) === true) &&
        metadata.createdAt >= (options.createdFrom ?? 0) &&
        metadata.createdAt < (options.createdTo ?? Number.POSITIVE_INFINITY) &&
        modifiedAt >= (options.modifiedFrom ?? 0) &&
        modifiedAt < (options.modifiedTo ?? Number.POSITIVE_INFINITY) &&
        contains(metadata.metadata ?? {}, options.metadata ?? {}),
    )
    .sort(
      (left, right) =>
        direction * (compare(key(left), key(right)) || compare(left.metadata.id, right.metadata.id)),
    );
}

/** As `jsonb @>` is documented. */
function contains(left: unknown, right: unknown): boolean {
  if (Array.isArray(right)) {
    return Array.isArray(left) && right.every((wanted) => left.some((member) => contains(member, wanted)));
  }
  if (typeof right === "object" && right !== null) {
    if (typeof left !== "object" || left === null || Array.isArray(left)) return false;
    const fields = left as Record<string, unknown>;
    return Object.entries(right).every(([name, wanted]) => name in fields && contains(fields[name], wanted));
  }
  return left === right;
}

describe("bad input", () => {
  const hostile = "x' or 1=1; drop table sessions; --";

  test.each([
    ["an unknown option", { [hostile]: 1 }, "invalid_option"],
    ["an option of another name", { userId: "u1" }, "invalid_option"],
    ["an order that is none", { order: hostile }, "invalid_option"],
    ["a sort that is none", { sort: hostile }, "invalid_option"],
    ["a sort of all objects", { sort: "toString" }, "invalid_option"],
    ["a limit of 0", { limit: 0 }, "invalid_option"],
    ["a limit of 1,001", { limit: 1001 }, "invalid_option"],
    ["a limit that is text", { limit: hostile }, "invalid_option"],
    ["a time that is text", { createdFrom: hostile }, "invalid_option"],
    ["half a millisecond", { modifiedTo: 0.5 }, "invalid_option"],
    ["a NUL in a directory", { cwd: "\0" }, "invalid_text"],
    ["a parent that is no id", { parentSessionId: "" }, "invalid_text"],
    ["half a character in a prefix", { namePrefix: "\ud800" }, "invalid_text"],
    ["a cursor that is no text", { cursor: 5 }, "invalid_option"],
    ["SQL for a cursor", { cursor: hostile }, "invalid_cursor"],
    ["an empty cursor", { cursor: "" }, "invalid_cursor"],
    [
      "a cursor of something else",
      { cursor: Buffer.from('["x",1,"a"]').toString("base64url") },
      "invalid_cursor",
    ],
  ])("%s is refused", async (_what, options, code) => {
    const repo = await at.database.repo("default");
    await expect((async () => repo.page(options as never, context))()).rejects.toMatchObject({ code });
  });

  test("a cursor goes on with its own question only, and its values are never SQL", async () => {
    const repo = await openTenant("cursors");
    for (const id of ["a", hostile, "c"]) await (await repo.create({ id }, context)).close(context);
    const first = await repo.page({ limit: 1, sort: "name", order: "desc" }, context);
    const cursor = first.next as string;
    for (const other of [{ sort: "name" }, { sort: "name", order: "desc", cwd: "/x" }, {}] as PageOptions[]) {
      await expect(repo.page({ ...other, cursor }, context)).rejects.toMatchObject({
        code: "invalid_cursor",
      });
    }
    const [digest] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [string];
    const forged = (...key: unknown[]) => Buffer.from(JSON.stringify([digest, ...key])).toString("base64url");
    const options = { sort: "name", order: "desc" } as const;
    for (const bad of [
      forged(1, "a"),
      forged("a"),
      forged("a", "b", "c"),
      forged("a\0", "b"),
      forged(null, null),
    ]) {
      await expect(repo.page({ ...options, cursor: bad }, context)).rejects.toMatchObject({
        code: "invalid_cursor",
      });
    }
    expect((await repo.page({ ...options, cursor: forged(hostile, hostile) }, context)).sessions).toEqual([]);
    expect(idsOf(await allPages(repo, { limit: 1 })).sort()).toEqual(["a", "c", hostile].sort());
  });

  test("SQL in filters and metadata finds what it says and does nothing", async () => {
    const repo = await openTenant("sql");
    const metadata = { [hostile]: hostile };
    const session = await repo.create(
      { id: hostile, cwd: hostile, parentSessionId: hostile, metadata },
      context,
    );
    await session.setName(hostile, context);
    await session.close(context);
    for (const filter of [
      { cwd: hostile },
      { parentSessionId: hostile },
      { namePrefix: hostile },
      { metadata },
    ] as PageOptions[]) {
      expect(idsOf(await allPages(repo, filter))).toEqual([hostile]);
    }
  });
});

describe("lineage", () => {
  test("is what a session was forked from and what was forked from it", async () => {
    const repo = await openTenant("family");
    const fork = async (source: string, id: string) =>
      (await repo.fork({ id: source }, { scope: "tree", id }, context)).close(context);
    await (await repo.create({ id: "root" }, context)).close(context);
    await fork("root", "child");
    await fork("root", "sibling");
    await fork("child", "grandchild");
    await fork("grandchild", "last");
    const lineage = await repo.lineage({ id: "child" }, context);
    expect(idsOf(lineage.ancestors)).toEqual(["root"]);
    expect(idsOf(lineage.descendants)).toEqual(["grandchild", "last"]);
    expect(idsOf((await repo.lineage({ id: "last" }, context)).ancestors)).toEqual([
      "grandchild",
      "child",
      "root",
    ]);
    expect(idsOf((await repo.lineage({ id: "root" }, context)).descendants)).toEqual([
      "child",
      "sibling",
      "grandchild",
      "last",
    ]);
    await repo.delete({ id: "child" }, context);
    expect(idsOf((await repo.lineage({ id: "last" }, context)).ancestors)).toEqual(["grandchild"]);
    expect(idsOf((await repo.lineage({ id: "root" }, context)).descendants)).toEqual(["sibling"]);
    await expect(repo.lineage({ id: "child" }, context)).rejects.toMatchObject({ code: "session_not_found" });
    await expect((await openTenant("strangers")).lineage({ id: "root" }, context)).rejects.toMatchObject({
      code: "session_not_found",
    });
  });

  test("ends where sessions name each other in a circle", async () => {
    const repo = await openTenant("circle");
    for (const [id, parentSessionId] of [
      ["self", "self"],
      ["a", "b"],
      ["b", "c"],
      ["c", "b"],
    ] as const) {
      await (await repo.create({ id, parentSessionId }, context)).close(context);
    }
    expect(await repo.lineage({ id: "self" }, context)).toEqual({ ancestors: [], descendants: [] });
    expect(idsOf((await repo.lineage({ id: "a" }, context)).ancestors)).toEqual(["b", "c"]);
    const { ancestors, descendants } = await repo.lineage({ id: "b" }, context);
    expect({ ancestors: idsOf(ancestors), descendants: idsOf(descendants) }).toEqual({
      ancestors: ["c"],
      descendants: ["a", "c"],
    });
  });
});

test("commits do not touch the indexes of sessions (HOT), although the time of the last one is kept", async () => {
  await using own = await openTestDatabase();
  const repo = await own.database.repo("default");
  const storage = await repo.createStorage({}, context);
  const commits = 500;
  for (let n = 0; n < commits; n++) {
    await storage.commit(
      [insertEntry({ id: `e${n}`, parentId: null, type: "custom", customType: "x" })],
      context,
    );
  }
  await storage.close(context);
  await own.database.close(); // a backend reports what it has counted at its end at the latest
  const updates = async () => {
    const { rows } = await own.admin.query<{ updated: number; hot: number; pages: number }>(
      `select n_tup_upd::int as updated, n_tup_hot_upd::int as hot, pg_relation_size(relid)::int / 8192 as pages
       from pg_stat_all_tables where relid = '"${own.schema}".sessions'::regclass`,
    );
    return rows[0] ?? { updated: 0, hot: 0, pages: 0 };
  };
  await expect
    .poll(async () => (await updates()).updated, { timeout: 20_000 })
    .toBeGreaterThanOrEqual(commits);
  const { updated, hot, pages } = await updates();
  // All but those in which a minute began, and those that went on to another page: while snapshots of other tests are
  // in use, dead rows stay and fill pages.
  expect(updated - hot).toBeLessThanOrEqual(pages + 2);
  expect(pages).toBeLessThan(commits / 20);
});
