import { sql, type Transaction } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import {
  appendList,
  type Branch,
  branchTip,
  BACKGROUND_CONTEXT as context,
  Database,
  type DB,
  entryLabel,
  idleLaneState,
  insertEntry,
  insertUsage,
  laneConfig,
  laneState,
  list,
  openDatabase,
  type PgSession,
  PgSessionRepo,
  PgStorage,
  PiSessionError,
  type SessionMutation,
  StorageBackedSession,
  sessionName,
  setValue,
  type Usage,
  value,
  type Write,
  withAbortSignal,
} from "../../src/index.ts";
import { PgSessionImporter } from "../../src/postgres/import-session.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { Tenants } from "../../src/postgres/tenants.ts";
import { PgTurn } from "../../src/postgres/turn.ts";
import { Usage as UsageReports } from "../../src/postgres/usage.ts";
import { StorageBranch } from "../../src/session/branch.ts";
import { StorageMutation } from "../../src/session/mutation.ts";
import { StorageReader } from "../../src/session/reader.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

vi.setConfig({ testTimeout: 180_000 });

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

/** What a session is called, and everything in it. */
type Ids = ReturnType<typeof idsOf>;

function idsOf(word: string) {
  const named = (what: string) => `${word}-${what}`;
  return {
    session: named("session"),
    parent: named("parent"),
    cwd: named("cwd"),
    name: named("name"),
    user: named("user"),
    entry: named("entry"),
    child: named("child"),
    customType: named("type"),
    usage: named("usage"),
    namespace: named("namespace"),
    key: named("key"),
    branch: named("branch"),
    /** Of a session or an entry that there is not yet. */
    fresh: named("fresh"),
  };
}

const USAGE: Usage = {
  ...{ input: 3, output: 2, cacheRead: 1, cacheWrite: 0, totalTokens: 6 },
  cost: { input: 0.1, output: 0.2, cacheRead: 0.3, cacheWrite: 0, total: 0.6 },
};

/** A session of this name, all of whose contents have the secret. */
async function fill(slug: string, ids: Ids, secret: string): Promise<void> {
  const repo = await at.database.repo(slug);
  const { session, cwd, parent, user } = ids;
  const metadata = { user, secret };
  const storage = await repo.createStorage({ id: session, cwd, parentSessionId: parent, metadata }, context);
  const message = { role: "user" as const, content: secret, timestamp: 1 };
  const usage = { id: ids.usage, entryId: ids.entry, adjustment: false, usage: USAGE, details: secret };
  const lane = {
    model: { provider: secret, modelId: "m" },
    thinkingLevel: "off" as const,
    activeToolNames: [],
  };
  const child = { id: ids.child, parentId: ids.entry, type: "custom" as const, customType: ids.customType };
  await storage.commit(
    [
      insertEntry({ id: ids.entry, parentId: null, type: "message", message }),
      insertEntry({ ...child, data: secret }),
      insertUsage(usage),
      setValue(sessionName, ids.name),
      setValue(entryLabel(ids.entry), secret),
      setValue(value(ids.namespace, ids.key), secret),
      appendList(list(ids.namespace, ids.key), secret),
      setValue(branchTip(ids.branch), ids.child),
      setValue(laneConfig(ids.branch), lane),
      setValue(laneState(ids.branch), idleLaneState()),
    ],
    context,
  );
  await storage.close(context);
}

/** Whoever makes a call: a tenant with a session of its own. */
class Caller {
  readonly slug: string;
  readonly database = at.database;
  readonly #own: Ids;
  readonly #closables: { close(context: unknown): Promise<void> }[] = [];

  constructor(slug: string, own: Ids) {
    this.slug = slug;
    this.#own = own;
  }

  /** Closed at the end, as whatever else is passed through here. */
  opened<T extends { close(context: never): Promise<void> }>(thing: T): T {
    this.#closables.unshift(thing as unknown as { close(context: unknown): Promise<void> });
    return thing;
  }

  async repo(): Promise<PgSessionRepo> {
    return this.opened(await this.database.repo(this.slug));
  }

  async session(): Promise<PgSession> {
    return (await this.repo()).open({ id: this.#own.session }, context);
  }

  async storage(): Promise<PgStorage> {
    return this.opened(await (await this.repo()).openStorage({ id: this.#own.session }, context));
  }

  async branch(): Promise<Branch> {
    return (await (await this.session()).branch(this.#own.branch, context)) as Branch;
  }

  async mutation(): Promise<SessionMutation & StorageMutation> {
    const mutation = (await (await this.session()).beginMutation(context)) as StorageMutation;
    this.#closables.unshift({ close: () => mutation.end(context) });
    return mutation;
  }

  async close(): Promise<void> {
    for (const closable of this.#closables) await closable.close(context);
  }
}

type Call = (caller: Caller, ids: Ids) => Promise<unknown>;

const ARCHIVE = { format: 4, sha256: "0", bytes: 1 };
const note = (id: string, parentId: string | null, data = "new") =>
  insertEntry({ id, parentId, type: "custom", customType: "note", data });

/** What reads, of a session, of a mutation and of a turn. */
const READS: Record<string, (reader: Reader, ids: Ids) => Promise<unknown>> = {
  getEntries: (reader, { entry, child }) => reader.getEntries([entry, child], context),
  getStats: (reader) => reader.getStats(context),
  getValue: async (reader, { namespace, key, entry, branch }) => [
    await reader.getValue(value(namespace, key), context),
    await reader.getValue(entryLabel(entry), context),
    await reader.getValue(branchTip(branch), context),
  ],
  scanValues: async (reader, { namespace }) => [
    await reader.scanValues(value(namespace), context),
    await reader.scanValues(value("pi.entry.label"), context),
  ],
  readList: (reader, { namespace, key }) => reader.readList(list(namespace, key), undefined, context),
  scanBranch: async (reader, { child, entry }) => [
    await outcome(reader.scanBranch({ start: child }, context)),
    await outcome(reader.scanBranch({ start: child, stopAtId: entry, order: "oldestFirst" }, context)),
  ],
};
type Reader = Pick<
  StorageReader,
  "getEntries" | "getStats" | "getValue" | "scanValues" | "readList" | "scanBranch"
>;

function reads(from: (caller: Caller) => Promise<Reader>): Record<string, Call> {
  return Object.fromEntries(
    Object.entries(READS).map(([name, read]) => [
      name,
      async (caller: Caller, ids: Ids) => read(await from(caller), ids),
    ]),
  );
}

/** Commits that name ids: a parent, an id that is new or not, a tip. */
async function commits(target: { commit(writes: Write[], context: unknown): Promise<unknown> }, ids: Ids) {
  return [
    await outcome(target.commit([note(ids.fresh, ids.entry)], context)),
    await outcome(target.commit([note(ids.entry, null)], context)),
  ];
}

/** Every method of the public classes. A new one fails the test below until it is here. */
const CALLS: Record<string, { methods: () => string[]; calls: Record<string, Call> }> = {
  repository: {
    methods: () => methodsOf(PgSessionRepo),
    calls: {
      create: async (caller, { session }) =>
        (await (await caller.repo()).create({ id: session, cwd: "x" }, context)).metadata,
      createStorage: async (caller, { session }) =>
        caller
          .opened(await (await caller.repo()).createStorage({ id: session }, context))
          .scanEntries({}, context),
      open: async (caller, { session, entry }) => {
        const opened = await (await caller.repo()).open({ id: session }, context);
        return [opened.metadata, await opened.getName(context), await opened.getEntry(entry, context)];
      },
      openStorage: async (caller, { session }) => {
        const repo = await caller.repo();
        const options = { exclusive: true };
        return caller
          .opened(await repo.openStorage({ id: session }, context, options))
          .scanEntries({}, context);
      },
      list: async (caller, { session, cwd }) => {
        const repo = await caller.repo();
        return [await repo.list({ idPrefix: session }, context), await repo.list({ cwd }, context)];
      },
      summarize: async (caller, { session }) =>
        (await caller.repo()).summarize({ idPrefix: session }, context),
      page: async (caller, { user, name, cwd, parent }) => {
        const repo = await caller.repo();
        const questions = [
          { metadata: { user } },
          { namePrefix: name },
          { cwd },
          { parentSessionId: parent },
        ];
        return Promise.all(questions.map((question) => repo.page(question, context)));
      },
      setMetadata: async (caller, { session, user }) => {
        const repo = await caller.repo();
        const set = await outcome(repo.setMetadata({ id: session }, { user, more: 1 }, context));
        return [set, await repo.page({ metadata: { user } }, context)];
      },
      lineage: async (caller, { session }) => (await caller.repo()).lineage({ id: session }, context),
      delete: async (caller, { session }) => {
        const repo = await caller.repo();
        return [
          await outcome(repo.delete({ id: session }, context)),
          await repo.list({ idPrefix: session }, context),
        ];
      },
      fork: async (caller, { session, branch, child, fresh }) => {
        const repo = await caller.repo();
        const tree = await outcome(repo.fork({ id: session }, { scope: "tree", id: fresh }, context));
        const part = { scope: "branch" as const, branch, entryId: child };
        return [tree, await outcome(repo.fork({ id: session }, part, context))];
      },
      verify: async (caller, { session }) => {
        const repo = await caller.repo();
        const findings: unknown[] = [];
        const report = await outcome(
          repo.verify({ sessionId: session, onFinding: (finding) => void findings.push(finding) }, context),
        );
        return [report, findings, await outcome(repo.verify({ sessionId: session, repair: true }, context))];
      },
      close: async (caller) => (await caller.repo()).close(context),
    },
  },
  importer: {
    methods: () => methodsOf(PgSessionImporter),
    calls: {
      find: async (caller, { session }) => (await caller.repo()).importer.find(session, context),
      import: async (caller, { session, fresh }) => {
        const { importer } = await caller.repo();
        const stream = () => ({
          chunks: (async function* () {
            const entry = { ...note(fresh, null).entry, kind: "entry" as const, seq: 1, timestamp: 1 };
            yield { writes: [entry], journal: Buffer.alloc(0) };
          })(),
          finish: () => ({ nextSeq: 2, archive: ARCHIVE }),
        });
        return importer.import({ id: session, createdAt: 1 }, stream, context);
      },
    },
  },
  storage: {
    methods: () => methodsOf(PgStorage),
    calls: {
      ...reads((caller) => caller.storage()),
      commit: async (caller, ids) => {
        const storage = await caller.storage();
        const usage = { id: ids.usage, adjustment: false, usage: USAGE };
        return [
          ...(await commits(storage, ids)),
          await outcome(storage.commit([insertUsage(usage)], context)),
        ];
      },
      beginTurn: async (caller, ids) => {
        const turn = (await caller.storage()).beginTurn();
        return [
          await turn.getEntries([ids.entry], context),
          await outcome(turn.commit([note("t", ids.entry)], context)),
        ];
      },
      scanTip: async (caller, { branch }) => outcome((await caller.storage()).scanTip(branch, {}, context)),
      scanBranchStructure: async (caller, { child }) =>
        (await caller.storage()).scanBranchStructure({ start: child }, context),
      scanEntries: async (caller, { customType }) => {
        const storage = await caller.storage();
        return [await storage.scanEntries({ customType }, context), await storage.scanEntries({}, context)];
      },
      getChildren: async (caller, { entry }) => {
        const storage = await caller.storage();
        return [await storage.getChildren(entry, {}, context), await storage.getChildren(null, {}, context)];
      },
      scanUsage: async (caller) => (await caller.storage()).scanUsage({}, context),
      settled: async (caller) => (await caller.storage()).settled(),
      close: async (caller) => (await caller.storage()).close(context),
    },
  },
  turn: {
    methods: () => methodsOf(PgTurn),
    calls: {
      ...reads(async (caller) => (await caller.storage()).beginTurn()),
      recallTip: async (caller, { branch }) =>
        (await caller.storage()).beginTurn().recallTip(branch, context),
      commit: async (caller, ids) => {
        const storage = await caller.storage();
        return commits({ commit: (writes) => storage.beginTurn().commit(writes, context) }, ids);
      },
    },
  },
  session: {
    methods: () => [...methodsOf(StorageBackedSession), ...methodsOf(StorageReader)],
    calls: {
      ...reads((caller) => caller.session()),
      beginMutation: async (caller, { entry }) => {
        const mutation = await (await caller.session()).beginMutation(context);
        const found = await mutation.getEntries([entry], context);
        await mutation.end(context);
        return found;
      },
      mutate: async (caller, ids) => {
        const session = await caller.session();
        return commits(
          { commit: (writes) => session.mutate((mutator) => mutator.commit(writes, context), context) },
          ids,
        );
      },
      getEntry: async (caller, { entry }) => (await caller.session()).getEntry(entry, context),
      getName: async (caller) => (await caller.session()).getName(context),
      getLabel: async (caller, { entry }) => (await caller.session()).getLabel(entry, context),
      findEntries: async (caller, { customType }) =>
        (await caller.session()).findEntries({ customType }, context),
      findEntry: async (caller) => (await caller.session()).findEntry({ type: "custom" }, context),
      branch: async (caller, { branch }) => {
        const found = await (await caller.session()).branch(branch, context);
        return found?.findEntries(undefined, context);
      },
      createBranch: async (caller, { branch, fresh, entry }) => {
        const session = await caller.session();
        const made = await outcome(session.createBranch(branch, null, context).then(({ name }) => name));
        return [made, await outcome(session.createBranch(fresh, entry, context).then(({ name }) => name))];
      },
      setValue: async (caller, { namespace, key }) => {
        const session = await caller.session();
        await session.setValue(value(namespace, key), "new", context);
        return session.getValue(value(namespace, key), context);
      },
      deleteValue: async (caller, { namespace, key }) => {
        const session = await caller.session();
        await session.deleteValue(value(namespace, key), context);
        return session.scanValues(value(namespace), context);
      },
      appendList: async (caller, { namespace, key }) => {
        const session = await caller.session();
        await session.appendList(list(namespace, key), "new", context);
        return session.readList(list(namespace, key), undefined, context);
      },
      deleteList: async (caller, { namespace, key }) => {
        const session = await caller.session();
        await session.deleteList(list(namespace, key), context);
        return session.readList(list(namespace, key), undefined, context);
      },
      setName: async (caller) => {
        const session = await caller.session();
        await session.setName("new", context);
        return session.getName(context);
      },
      setLabel: async (caller, { entry }) => {
        const session = await caller.session();
        await session.setLabel(entry, "new", context);
        return session.getLabel(entry, context);
      },
      close: async (caller) => (await caller.session()).close(context),
    },
  },
  mutation: {
    methods: () => [...methodsOf(StorageMutation), ...methodsOf(StorageReader)],
    calls: {
      ...reads((caller) => caller.mutation()),
      recallTip: async (caller, { branch }) => (await caller.mutation()).recallTip(branch, context),
      commit: async (caller, ids) => (await caller.mutation()).commit([note(ids.fresh, ids.entry)], context),
      end: async (caller) => (await caller.mutation()).end(context),
    },
  },
  branch: {
    methods: () => methodsOf(StorageBranch),
    calls: {
      getTipId: async (caller) => (await caller.branch()).getTipId(context),
      findEntries: async (caller, { entry }) =>
        (await caller.branch()).findEntries({ start: entry }, context),
      findEntry: async (caller, { entry }) => (await caller.branch()).findEntry({ stopAtId: entry }, context),
      appendMessage: async (caller) => {
        const branch = await caller.branch();
        await branch.appendMessage({ role: "user", content: "new", timestamp: 1 }, context);
        return branch.findEntries(undefined, context);
      },
      appendCustomEntry: async (caller) => {
        const branch = await caller.branch();
        await branch.appendCustomEntry("note", "new", context);
        return branch.findEntries(undefined, context);
      },
    },
  },
  usage: {
    methods: () => methodsOf(UsageReports),
    calls: {
      report: async ({ database, slug }, { session, cwd }) => {
        const by = ["tenant", "session", "root", "cwd", "model"] as const;
        const questions = [{ session }, { root: session }, { cwd }];
        return Promise.all(
          questions.map((where) => database.usage.report({ tenant: slug, by, where }, context)),
        );
      },
      changes: async ({ database, slug }, { session }) => {
        const found: unknown[] = [];
        for await (const { id, sessionId, model } of database.usage.changes({ tenant: slug }, context)) {
          if (sessionId === session) found.push([id, model]);
        }
        return found;
      },
      dimensions: ({ database, slug }) => database.usage.dimensions(slug),
      setDimensions: ({ database, slug }, { namespace }) => database.usage.setDimensions(slug, [namespace]),
      rollUp: async ({ database, slug }) => void (await database.usage.rollUp({ tenant: slug }, context)),
      rebuild: async ({ database, slug }) => void (await database.usage.rebuild({ tenant: slug }, context)),
      afterRestore: ({ database }) => outcome(database.usage.afterRestore(context)),
    },
  },
  database: {
    methods: () => methodsOf(Database),
    calls: {
      migrate: (caller) => caller.database.migrate(),
      serverVersion: (caller) => caller.database.serverVersion(),
      migrationStatus: (caller) => caller.database.migrationStatus(),
      repo: async (caller, { session }) => {
        const repo = caller.opened(await caller.database.repo(caller.slug));
        return repo.list({ idPrefix: session }, context);
      },
      withTenant: ({ database, slug }, { session }) =>
        database.withTenant(slug, async (kysely) => [
          await kysely.selectFrom("entries").selectAll().where("session_id", "=", session).execute(),
          await kysely
            .selectFrom("sessions")
            .select(["session_id", "metadata"])
            .where("session_id", "=", session)
            .execute(),
          await kysely
            .deleteFrom("scalar_values")
            .where("session_id", "=", session)
            .returning("value")
            .execute(),
        ]),
      checkIsolation: ({ database, slug }) => database.checkIsolation(slug),
      close: async () => {
        const database = await openDatabase({ connectionString: at.connectionString, schema: at.schema });
        await database.close();
      },
    },
  },
};

/** Apart from those that are not public. */
function methodsOf(type: { prototype: object }): string[] {
  return Object.entries(Object.getOwnPropertyDescriptors(type.prototype))
    .filter(([name, { value: method }]) => typeof method === "function" && name !== "constructor")
    .map(([name]) => name)
    .filter((name) => name !== "assertUsable");
}

const ALL_CALLS = Object.entries(CALLS).flatMap(([what, { calls }]) =>
  Object.entries(calls).map(([method, call]) => ({ name: `${what}.${method}`, call })),
);

/** What a call resolves to, or all that it rejects with, which must be one of this package's errors. */
async function outcome(call: Promise<unknown>): Promise<unknown> {
  try {
    return { resolved: await call };
  } catch (error) {
    if (!(error instanceof PiSessionError)) throw error;
    const { name, message, cause, ...data } = error;
    return { rejected: { name, message, cause: String(cause), ...data } };
  }
}

/** As text, without what differs from call to call. Sets of sessions, whatever their order. */
function textOf(result: unknown): string {
  const text = JSON.stringify(result, (_key, part: unknown) => {
    if (part instanceof Map) return [...part];
    if (part instanceof StorageBackedSession) return part.metadata;
    return part;
  });
  return (text ?? "undefined")
    .replaceAll(/\b1[5-9]\d{11}\b/g, "0")
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>");
}

async function run(slug: string, call: Call, { own, ids }: { own: Ids; ids: Ids }): Promise<string> {
  const caller = new Caller(slug, own);
  try {
    return textOf(await outcome(call(caller, ids)));
  } finally {
    await caller.close();
  }
}

/** All that a tenant has. */
async function rowsOf(slug: string): Promise<string> {
  const tables = await at.admin.query<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class as c join pg_attribute as a on a.attrelid = c.oid
     where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p') and attname = 'tenant_id' order by 1`,
    [at.schema],
  );
  const each = tables.rows.map(
    ({ name }) => `(select string_agg(t::text, ',' order by t::text) from ${name} as t where tenant_id = $1)`,
  );
  const { rows } = await at.admin.query<{ digest: string }>(
    `select md5(concat_ws('|', ${each.join(", ")})) as digest`,
    [tenantOf(slug).tenantId],
  );
  return rows[0]?.digest as string;
}

test("every method of the public classes is called here", () => {
  for (const [what, { methods, calls }] of Object.entries(CALLS)) {
    expect([what, Object.keys(calls).sort()]).toEqual([what, methods().sort()]);
  }
});

describe("ids of another tenant", () => {
  beforeAll(async () => {
    for (const slug of ["alpha", "gamma", "bravo"])
      await at.owner.tenants.create({ slug, limits: { sessions: 10_000 } });
  });

  // Alpha names what bravo has; gamma, which is just like alpha, what nobody has.
  test.for(ALL_CALLS)("$name takes them for ids that do not exist", async ({ name, call }) => {
    const [own, theirs, nobodys] = [idsOf(`own-${name}`), idsOf(`bravo-${name}`), idsOf(`nobod-${name}`)];
    for (const slug of ["alpha", "gamma"]) await fill(slug, own, "own secret");
    await fill("bravo", theirs, "secret of bravo");
    const before = await rowsOf("bravo");
    const real = await run("alpha", call, { own, ids: theirs });
    expect(await rowsOf("bravo")).toBe(before);
    const unreal = await run("gamma", call, { own, ids: nobodys });
    expect(real.replaceAll("bravo", "nobod").replaceAll("alpha", "gamma")).toBe(unreal);
    expect(real).not.toContain("secret of bravo");
  });
});

describe("the same ids in two tenants", () => {
  const shown = new Set<string>();
  beforeAll(async () => {
    for (const slug of ["delta", "hotel"]) await at.owner.tenants.create({ slug });
  });

  test.for(ALL_CALLS)("$name keeps them apart", async ({ name, call }) => {
    const ids = idsOf(`both-${name}`);
    for (const slug of ["delta", "hotel"]) await fill(slug, ids, `secret of ${slug}`);
    const hotels = await rowsOf("hotel");
    const first = await run("delta", call, { own: ids, ids });
    expect(await rowsOf("hotel")).toBe(hotels);
    const deltas = await rowsOf("delta");
    const second = await run("hotel", call, { own: ids, ids });
    expect(await rowsOf("delta")).toBe(deltas);
    expect(first.replaceAll("delta", "hotel")).toBe(second);
    expect(first).not.toContain("secret of hotel");
    expect(second).not.toContain("secret of delta");
    if (first.includes("secret of delta")) shown.add(name);
  });

  test("and most of them show what is in a session", () => {
    expect([...shown]).toEqual(
      expect.arrayContaining(
        ["getEntries", "getValue", "scanValues", "readList", "scanBranch"].flatMap((method) =>
          ["storage", "turn", "session", "mutation"].map((what) => `${what}.${method}`),
        ),
      ),
    );
    expect(shown.size).toBeGreaterThanOrEqual(40);
  });
});

describe("the administration of tenants", () => {
  test("tells an application of no tenant but the one that it names", async () => {
    await at.owner.tenants.create({ slug: "kilo", name: "secret of kilo" });
    const { tenants } = at.database;
    const before = await rowsOf("kilo");
    const calls: Record<string, (slug: string) => Promise<unknown>> = {
      list: () => tenants.list(),
      suspend: (slug) => tenants.suspend(slug),
      setSettings: (slug) => tenants.setSettings(slug, {}),
      setLimits: (slug) => tenants.setLimits(slug, { sessions: 1, storedBytes: 1 }),
      delete: (slug) => tenants.delete(slug, { confirm: slug }),
    };
    for (const [method, call] of Object.entries(calls)) {
      const [real, unreal] = [textOf(await outcome(call("kilo"))), textOf(await outcome(call("nobo")))];
      expect([method, real.replaceAll("kilo", "nobo")]).toEqual([method, unreal]);
      expect(real).toContain("database_permission");
    }
    // These name a tenant, and act as it.
    const naming = ["create", "get", "rename", "resume"];
    expect([...Object.keys(calls), ...naming].sort()).toEqual(methodsOf(Tenants).sort());
    await expect(tenants.create({ slug: "kilo" })).rejects.toMatchObject({ code: "tenant_exists" });
    await expect(tenants.resume("kilo")).rejects.toMatchObject({ code: "database_permission" });
    await expect(tenants.rename("nobo", "x")).rejects.toMatchObject({ code: "tenant_not_found" });
    expect(await rowsOf("kilo")).toBe(before);
    expect(await tenants.get("kilo")).toMatchObject({ slug: "kilo", name: "secret of kilo" });
  });
});

const SQL = [
  "'; drop table sessions cascade; --",
  "' or '1'='1",
  "') or true --",
  "x'; set pi_sessions.tenant = ''; --",
  `"; drop schema "x" cascade; --`,
  "\\'; select 1/0; --",
  "$1",
  "$$ || (select 1/0) || $$",
  "$\u007b1/0}",
  "{schema}",
  "::uuid",
  "/* */ union select slug from tenants",
  "%",
  "_",
  "\\",
  "a\nb;c",
  "?",
  ":name",
  "{}",
  '{"$ne":null}',
  "*",
  "pg_sleep(1)",
  "__proto__",
  "constructor",
  "’ ＇ʼ",
];

test("SQL in whatever a caller names is kept as it is, or refused", async () => {
  for (const text of SQL) {
    const { slug } = await at.database.tenants.create({ slug: text, name: text, settings: { [text]: text } });
    expect(await at.database.tenants.get(text)).toMatchObject({
      slug,
      name: text,
      settings: { [text]: text },
    });
    const repo = await at.database.repo(text);
    const metadata = { [text]: text, nested: { [text]: [text] } };
    const session = await repo.create({ id: text, cwd: text, parentSessionId: text, metadata }, context);
    await session.setName(text, context);
    const branch = await session.createBranch(text, null, context);
    const entryId = await branch.appendCustomEntry(text, { [text]: text }, context);
    await session.mutate(
      (mutator) =>
        mutator.commit(
          [
            insertEntry({ id: text, parentId: entryId, type: "custom", customType: text, data: text }),
            insertUsage({
              id: `${text} used`,
              entryId: text,
              adjustment: false,
              usage: USAGE,
              details: text,
            }),
            setValue(branchTip(text), text),
          ],
          context,
        ),
      context,
    );
    await session.setLabel(text, text, context);
    await session.setValue(value(text, text), text, context);
    await session.appendList(list(text, text), text, context);

    expect((await session.getEntry(text, context))?.customType).toBe(text);
    expect(await session.getName(context)).toBe(text);
    expect(await session.getLabel(text, context)).toBe(text);
    expect((await session.getValue(value(text, text), context))?.value).toBe(text);
    expect(await session.scanValues(value(text, text), context)).toHaveLength(1);
    expect((await session.readList(list(text, text), undefined, context)).map((one) => one.value)).toEqual([
      text,
    ]);
    expect(
      await (await session.branch(text, context))?.findEntries({ customType: text }, context),
    ).toHaveLength(2);
    expect(await session.scanBranch({ start: text, stopAtId: entryId }, context)).toHaveLength(2);
    expect(await session.findEntries({ customType: text }, context)).toHaveLength(2);
    await session.close(context);
    const storage = await repo.openStorage({ id: text }, context);
    expect(await storage.getChildren(entryId, {}, context)).toMatchObject([{ id: text, data: text }]);
    expect(await storage.scanUsage({}, context)).toMatchObject([{ entryId: text, details: text }]);
    await storage.close(context);

    for (const filter of [
      { cwd: text },
      { parentSessionId: text },
      { namePrefix: text },
      { metadata: { [text]: text } },
      { metadata: { nested: { [text]: [text] } } },
    ]) {
      const { sessions } = await repo.page(filter, context);
      expect(sessions.map((found) => [found.metadata.id, found.name])).toEqual([[text, text]]);
      expect(sessions[0]?.metadata.metadata).toEqual(metadata);
    }
    for (const filter of [{ cwd: text }, { idPrefix: text }]) {
      expect(await repo.list(filter, context)).toMatchObject([{ id: text }]);
    }
    const fork = await repo.fork({ id: text }, { scope: "tree", id: `${text} fork` }, context);
    expect(await fork.getEntry(text, context)).toMatchObject({ data: text });
    await fork.close(context);
    expect((await repo.lineage({ id: text }, context)).descendants.map((one) => one.metadata.id)).toEqual([
      `${text} fork`,
    ]);
    await repo.setMetadata({ id: text }, { [text]: [text] }, context);
    expect((await repo.page({ metadata: { [text]: [text] } }, context)).sessions).toHaveLength(1);
    expect(await repo.verify({ sessionId: text }, context)).toMatchObject({ sessions: 1, findings: 0 });
    const cursor = Buffer.from(JSON.stringify([text, text, text])).toString("base64url");
    for (const bad of [text, cursor]) {
      await expect(repo.page({ cursor: bad }, context)).rejects.toMatchObject({ code: "invalid_cursor" });
    }
    for (const bad of [
      { sort: text },
      { order: text },
      { limit: text },
      { [text]: text },
      { createdFrom: text },
    ]) {
      await expect(repo.page(bad as never, context)).rejects.toMatchObject({ code: "invalid_option" });
    }
    await expect(repo.list({ limit: text } as never, context)).rejects.toMatchObject({
      code: "invalid_option",
    });
    await repo.delete({ id: text }, context);
    await repo.close(context);
    expect(
      await at.database.withTenant(text, (db) => db.selectFrom("tenants").select("slug").execute()),
    ).toEqual([{ slug: text }]);
  }
});

test("a cursor of another tenant's page goes on with the caller's own sessions", async () => {
  for (const slug of ["mike", "oscar"]) {
    await at.database.tenants.create({ slug });
    const repo = await at.database.repo(slug);
    for (const n of [1, 2, 3]) await (await repo.create({ id: `${slug} ${n}` }, context)).close(context);
  }
  const [mike, oscar] = [await at.database.repo("mike"), await at.database.repo("oscar")];
  for (const sort of ["created", "modified", "name"] as const) {
    const options = { sort, order: "asc", limit: 1 } as const;
    const { next = "" } = await mike.page(options, context);
    const page = await oscar.page({ ...options, cursor: next, limit: 10 } as never, context);
    for (const { metadata } of page.sessions) expect(metadata.id).toMatch(/^oscar/);
  }
});

describe("a pool of four connections", () => {
  test("serves a thousand tenants at once, and keeps nothing of any", async () => {
    const pool = new pg.Pool({ connectionString: at.connectionString, max: 4 });
    const database = await openDatabase({ pool, schema: at.schema });
    const slugs = Array.from({ length: 1000 }, (_, n) => `crowd ${n}`);
    const answers = await Promise.all(slugs.map((slug, n) => liveAs(database, slug, n)));
    expect(answers.flat().filter((answer) => !answer.isOwn)).toEqual([]);
    expect(answers.flat().length).toBeGreaterThanOrEqual(6_000);
    await database.close();

    const fresh = new pg.Client(at.connectionString);
    await fresh.connect();
    const untouched = await traces(fresh);
    await fresh.end();
    const clients = await Promise.all([1, 2, 3, 4].map(() => pool.connect()));
    for (const client of clients) expect(await traces(client)).toEqual(untouched);
    const states = await at.admin.query(
      `select state, backend_xid, backend_xmin, (select count(*)::int from pg_locks as l where l.pid = a.pid) as locks
       from pg_stat_activity as a where pid = any($1)`,
      [clients.map((client) => (client as unknown as { processID: number }).processID)],
    );
    expect(states.rows).toEqual(
      Array(4).fill({ state: "idle", backend_xid: null, backend_xmin: null, locks: 0 }),
    );
    for (const client of clients) client.release();
    await pool.end();
  });

  interface Answer {
    isOwn: boolean;
    text: string;
  }

  /** A tenant's life. Everything that it is told must be its own. */
  async function liveAs(database: Database, slug: string, n: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    /** Every text in it that names a tenant names this one. */
    const hear = (result: unknown) => {
      const text = textOf(result);
      const named = text.match(/crowd \d+/g) ?? [];
      answers.push({ isOwn: named.length > 0 && named.every((name) => name === slug), text });
    };
    await database.tenants.create({ slug, name: slug });
    const repo = await database.repo(slug);
    const session = await repo.create({ id: "same", cwd: slug, metadata: { slug } }, context);
    const main = await session.createBranch("main", null, context);
    const entryId = await main.appendMessage({ role: "user", content: slug, timestamp: 1 }, context);
    await session.setLabel(entryId, slug, context);
    await failures(database, repo, slug)[n % 6]?.();
    hear(await main.findEntries(undefined, context));
    hear(await session.getLabel(entryId, context));
    hear(await repo.list(undefined, context));
    hear(await repo.page({ metadata: { slug } }, context));
    hear(await database.tenants.get(slug));
    hear(await database.withTenant(slug, (kysely) => kysely.selectFrom("tenants").select("slug").execute()));
    if (n % 10 === 0) {
      const fork = await repo.fork({ id: "same" }, { scope: "tree" }, context);
      hear(await fork.findEntries(undefined, context));
    }
    await repo.close(context);
    return answers;
  }

  /** Work that fails, or is given up, in the middle of a transaction. */
  function failures(database: Database, repo: PgSessionRepo, slug: string): (() => Promise<unknown>)[] {
    const giveUp = (schedule: (abort: () => void) => void) => () => {
      const controller = new AbortController();
      const page = repo.page({}, withAbortSignal(controller.signal, context));
      schedule(() => controller.abort());
      return page.catch(() => undefined);
    };
    return [
      giveUp((abort) => abort()),
      giveUp(setImmediate),
      () => expect(repo.create({ id: "same" }, context)).rejects.toMatchObject({ code: "session_exists" }),
      () => expect(repo.delete({ id: "none" }, context)).rejects.toMatchObject({ code: "session_not_found" }),
      () => expect(database.withTenant(slug, (db) => sql`select 1/0`.execute(db))).rejects.toThrow("zero"),
      () =>
        expect(
          database.withTenant(slug, async (kysely) => {
            await kysely.deleteFrom("sessions").execute();
            throw new Error("take it back");
          }),
        ).rejects.toThrow("take it back"),
    ];
  }

  /** What was left on a connection, apart from prepared statements. */
  async function traces(client: pg.ClientBase): Promise<unknown> {
    const { rows } = await client.query(`
      select coalesce(current_setting('pi_sessions.tenant', true), '') as tenant, current_user as role,
        array(select name || '=' || setting from pg_settings where source = 'session' order by 1) as settings,
        array(select name from pg_cursors) as cursors, array(select pg_listening_channels()) as channels,
        array(select relname from pg_class where relnamespace = pg_my_temp_schema()) as temporary,
        array(select name from pg_prepared_statements where name not like 'pi\\_%') as statements,
        now() = statement_timestamp() as is_new_transaction`);
    return rows;
  }
});

describe("withTenant", () => {
  let own: string;
  beforeAll(async () => {
    own = `${at.schema}_own`;
    for (const slug of ["papa", "quebec"]) {
      await at.owner.tenants.create({ slug });
      await fill(slug, idsOf(slug), `secret of ${slug}`);
    }
    // A table of the application's own, as docs/tenants.md says.
    await at.admin.query(`
      create schema ${own};
      create table ${own}.orders (tenant_id uuid not null, order_id int, item text, primary key (tenant_id, order_id));
      alter table ${own}.orders enable row level security, force row level security;
      create policy of_one_tenant on ${own}.orders
        using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);
      grant usage on schema ${own} to ${at.applicationRole};
      grant select, insert, update, delete on ${own}.orders to ${at.applicationRole}`);
  });
  afterAll(() => at.admin.query(`drop schema ${own} cascade`));

  interface Orders {
    orders: { tenant_id: string; order_id: number; item: string };
  }

  test("shows one tenant's rows to queries that name none, in every table", async () => {
    const tables = [
      "tenants",
      "sessions",
      "session_terms",
      "entries",
      "scalar_values",
      "list_values",
      "usage_ledger",
    ];
    const ids = await at.database.withTenant("papa", async (kysely) => {
      const found = tables.map((table) =>
        kysely
          .selectFrom(table as "entries")
          .select("tenant_id")
          .distinct()
          .execute(),
      );
      return Promise.all(found);
    });
    expect(ids).toEqual(tables.map(() => [{ tenant_id: tenantOf("papa").tenantId }]));
  });

  test("takes back what a callback did that throws, and keeps what one did that does not", async () => {
    const rename = (slug: string, name: string, then: () => void) =>
      at.database.withTenant(slug, async (kysely) => {
        const updated = await kysely.updateTable("sessions").set({ name }).returning("session_id").execute();
        expect(updated).toEqual([{ session_id: `${slug}-session` }]);
        then();
      });
    const names = () => at.admin.query(`select name from "${at.schema}".sessions where name like 'renamed%'`);
    const failure = new Error("no");
    await expect(
      rename("papa", "renamed", () => {
        throw failure;
      }),
    ).rejects.toBe(failure);
    expect((await names()).rows).toEqual([]);
    await rename("papa", "renamed", () => {});
    expect((await names()).rows).toEqual([{ name: "renamed" }]);
  });

  test("writes nothing of another tenant, whatever is named", async () => {
    const theirs = tenantOf("quebec").tenantId;
    const before = await rowsOf("quebec");
    await at.database.withTenant("papa", async (kysely) => {
      await kysely.updateTable("sessions").set({ name: "stolen" }).where("tenant_id", "=", theirs).execute();
      await kysely.deleteFrom("sessions").where("tenant_id", "=", theirs).execute();
    });
    const stolen = {
      tenant_id: theirs,
      session_id: "quebec-session",
      namespace: "n",
      key: "k",
      seq: 100,
      value: "1",
    };
    await expect(
      at.database.withTenant("papa", (kysely) => kysely.insertInto("scalar_values").values(stolen).execute()),
    ).rejects.toMatchObject({ code: "database_permission" });
    await expect(
      at.database.withTenant("papa", (kysely) => kysely.deleteFrom("entries").execute()),
    ).rejects.toMatchObject({ code: "database_permission" });
    expect(await rowsOf("quebec")).toBe(before);
  });

  test("shows nothing after a commit of the callback's own", async () => {
    const seen = await at.database.withTenant("papa", async (kysely) => {
      await sql`commit`.execute(kysely);
      return kysely.selectFrom("sessions").select("session_id").execute();
    });
    expect(seen).toEqual([]);
  });

  test("runs nothing on the connection once it has ended, when others use it", async () => {
    const pool = new pg.Pool({ connectionString: at.connectionString, max: 1 });
    const database = await openDatabase({ pool, schema: at.schema });
    const query = (kysely: Transaction<DB>) => kysely.selectFrom("sessions").select("session_id").execute();
    let leaked = (): Promise<unknown> => Promise.resolve();
    let forgotten: Promise<unknown> | undefined;
    await database.withTenant("papa", async (kysely) => {
      leaked = () => query(kysely);
      forgotten = query(kysely);
    });
    expect(await forgotten).toEqual([{ session_id: "papa-session" }]);
    await database.withTenant("quebec", async (kysely) => {
      expect(await query(kysely)).toEqual([{ session_id: "quebec-session" }]);
      await expect(leaked()).rejects.toThrow();
    });
    await database.close();
    await pool.end();
  });

  test("is read-only for a suspended tenant, in the application's own tables too", async () => {
    const { tenantId } = tenantOf("papa");
    const order = { tenant_id: tenantId, order_id: 0, item: "refused" };
    await at.owner.tenants.suspend("papa");
    try {
      for (const write of [
        () => at.database.withTenant("papa", (db) => db.updateTable("sessions").set({ name: "x" }).execute()),
        () => at.database.withTenant("papa", (db) => db.deleteFrom("scalar_values").execute()),
        () =>
          at.database.withTenant<unknown, Orders>("papa", (db) =>
            db.withSchema(own).insertInto("orders").values(order).execute(),
          ),
      ]) {
        await expect(write()).rejects.toThrow("read-only");
      }
      const read = at.database.withTenant("papa", (db) =>
        db.selectFrom("sessions").select("session_id").execute(),
      );
      expect(await read).toEqual([{ session_id: "papa-session" }]);
    } finally {
      await at.owner.tenants.resume("papa");
    }
  });

  test("holds an application's own table to the tenant, beside calls of the repositories", async () => {
    const rounds = Array.from({ length: 25 }, (_, n) => n + 1);
    const work = ["papa", "quebec"].flatMap((slug) =>
      rounds.map(async (n) => {
        const { tenantId } = tenantOf(slug);
        const repo = await at.database.repo(slug);
        const [orders, sessions] = await Promise.all([
          at.database.withTenant<Orders["orders"][], Orders>(slug, async (kysely) => {
            const db = kysely.withSchema(own);
            await db.insertInto("orders").values({ tenant_id: tenantId, order_id: n, item: slug }).execute();
            return db.selectFrom("orders").select(["tenant_id", "order_id", "item"]).execute();
          }),
          repo.list({ idPrefix: slug }, context),
        ]);
        expect(orders.map(({ item }) => item)).toEqual(orders.map(() => slug));
        expect(orders.map(({ order_id }) => order_id)).toContain(n);
        expect(sessions.map(({ id }) => id)).toEqual([`${slug}-session`]);
        await repo.close(context);
      }),
    );
    await Promise.all(work);
    await expect(
      at.database.withTenant<unknown, Orders>("papa", (kysely) => {
        const theirs = { tenant_id: tenantOf("quebec").tenantId, order_id: 1, item: "stolen" };
        return kysely.withSchema(own).insertInto("orders").values(theirs).execute();
      }),
    ).rejects.toMatchObject({ code: "database_permission" });
    const { rows } = await at.admin.query(
      `select item, count(*)::int from ${own}.orders group by item order by item`,
    );
    expect(rows).toEqual(["papa", "quebec"].map((item) => ({ item, count: 25 })));
  });
});
