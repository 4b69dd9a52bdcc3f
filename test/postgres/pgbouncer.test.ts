import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Client, type ClientBase, Pool } from "pg";
import { describe, expect, test } from "vitest";
import { laneConfig, laneState, list, value } from "../../src/contract/address.ts";
import { BACKGROUND_CONTEXT as context, withAbortSignal } from "../../src/contract/context.ts";
import { idleLaneState } from "../../src/contract/lane.ts";
import { insertEntry, insertUsage, setValue } from "../../src/contract/write.ts";
import { type Database, type DatabaseOptions, openDatabase } from "../../src/postgres/database.ts";
import type { PgSession, PgSessionRepo } from "../../src/postgres/repo.ts";
import { stateOf } from "../archive/state.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { hasPgBouncer, type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";

const ARCHIVES = join(import.meta.dirname, "../../examples/archives");
const title = "PgBouncer in transaction mode";

describe.skipIf(!hasPgBouncer)(hasPgBouncer ? title : `${title} (pgbouncer is not installed)`, () => {
  const TENANTS = ["acme", "globex", "initech"];

  test.each(["auto", false] as const)(
    "sessions of many tenants live as on a connection of their own, with preparedStatements %s",
    async (preparedStatements) => {
      await using at = await openTestDatabase();
      await using reference = await openTestDatabase();
      await using bouncer = await startPgBouncer(at);
      const timeouts = { statementMs: 60_000, lockMs: 60_000 };
      const databases = await Promise.all(
        [1, 2].map(() => openBehind(bouncer, at, { preparedStatements, timeouts })),
      );
      for (const tenant of TENANTS) {
        await reference.database.tenants.create({ slug: tenant });
        await databases[0]?.tenants.create({ slug: tenant });
      }
      const lives = databases.flatMap((database, index) =>
        TENANTS.map(async (tenant) => {
          const observed = await live(database, tenant, `program ${index}`);
          expect(observed).toEqual(await live(reference.database, tenant, `program ${index}`));
        }),
      );
      await Promise.all(lives);
      await Promise.all(databases.map((database) => database.close()));
      await expectNothingLeft(bouncer.through(at.connectionString), 2);
    },
  );

  test("thousands of interleaved operations on four connections are answered to those who called them", async () => {
    await using at = await openTestDatabase();
    await using bouncer = await startPgBouncer(at);
    const pool = new Pool({ connectionString: bouncer.through(at.connectionString), max: 4 });
    const database = await openDatabase({ pool, schema: at.schema });
    for (const slug of TENANTS) await database.tenants.create({ slug });
    const writers = TENANTS.flatMap((tenant) => [0, 1, 2].map((writer) => ({ tenant, writer })));
    await Promise.all(
      writers.map(async (own) => {
        const repo = await database.repo(own.tenant);
        const session = await repo.create({ id: `s${own.writer}` }, context);
        const main = await session.createBranch("main", null, context);
        for (let step = 0; step < 60; step++) {
          const [last] = await Promise.all([
            main.appendCustomEntry("step", { ...own, step }, context),
            session.setValue(value("last", "step"), { ...own, step }, context),
          ]);
          expect(await main.findEntries({ limit: 1 }, context)).toMatchObject([
            { id: last, data: { ...own, step } },
          ]);
          expect(await session.getValue(value("last", "step"), context)).toMatchObject({
            value: { ...own, step },
          });
        }
        const steps = await main.findEntries({ order: "oldestFirst" }, context);
        expect(steps).toMatchObject(Array.from({ length: 60 }, (_, step) => ({ data: { ...own, step } })));
      }),
    );
    await database.close();
    await pool.end();
    await expectNothingLeft(bouncer.through(at.connectionString), 2);
  });

  test("a schema is migrated through it, by any number of programs, whatever the option says", async () => {
    await using at = await openTestDatabase({ migrated: false });
    await using bouncer = await startPgBouncer(at, { serverConnections: 1 });
    const programs = await Promise.all(
      (["auto", true, false, "auto"] as const).map((preparedStatements) =>
        openBehind(bouncer, at, { preparedStatements }),
      ),
    );
    const applied = await Promise.all(
      programs.map((program) => program.migrate({ applicationRoles: [at.applicationRole] })),
    );
    const [first = []] = applied.filter(({ length }) => length > 0);
    expect(applied.flat()).toEqual(first);
    for (const program of programs) {
      expect(await program.migrationStatus()).toEqual({ applied: first, pending: [], unknown: [] });
      expect(await program.migrate()).toEqual([]);
      await program.close();
    }
    await expectNothingLeft(bouncer.through(at.ownerConnectionString), 1);
  });

  test("queries of an application are never prepared", async () => {
    await using at = await openTestDatabase();
    // Where prepared statements are not lost, so that the option can be true.
    const { schema, connectionString } = at;
    const watched = watchedPool(connectionString);
    const database = await openDatabase({ pool: watched.pool, schema, preparedStatements: true });
    const repo = await database.repo("default");
    await repo.create({ id: "s" }, context);
    watched.forget();
    const ids = await database.withTenant("default", (kysely) =>
      kysely.selectFrom("sessions").select("session_id").where("session_id", "=", "s").execute(),
    );
    expect(ids).toEqual([{ session_id: "s" }]);
    const query = watched.sent.find(({ text }) => text.includes('where "session_id" = $1'));
    expect(query).toMatchObject({ name: undefined });
    expect(watched.sent.some(({ name }) => name !== undefined)).toBe(true);
    await database.close();
    await watched.pool.end();
  });

  test("aborting a read that runs cancels it in the server, and the next call works", async () => {
    await using at = await openTestDatabase();
    await using bouncer = await startPgBouncer(at, { serverConnections: 1 });
    const database = await openBehind(bouncer, at);
    const session = await (await database.repo("default")).create({}, context);
    await whileLocked(at, async () => {
      const reading = startReading(session);
      await backendsWaiting(at);
      reading.abort();
      await reading.aborted;
      await backendsWaiting(at, { none: true });
    });
    await session.setName("next", context);
    expect(await session.getName(context)).toBe("next");
    await database.close();
  });

  test("a read that is aborted while it waits for a server is cancelled when it gets one", async () => {
    await using at = await openTestDatabase();
    await using bouncer = await startPgBouncer(at, { serverConnections: 1 });
    const database = await openBehind(bouncer, at);
    const session = await (await database.repo("default")).create({}, context);
    const occupant = new Client(bouncer.through(at.connectionString));
    await occupant.connect();
    await occupant.query("begin");
    await whileLocked(at, async () => {
      const reading = startReading(session);
      await clientsWaiting(bouncer);
      reading.abort();
      await bouncer.command("show pools"); // it has heard of that by now
      await occupant.query("rollback");
      await reading.aborted;
      await backendsWaiting(at, { none: true });
    });
    expect(await session.getName(context)).toBeUndefined();
    await occupant.end();
    await database.close();
  });

  test("aborting one read after another hits nothing else", async () => {
    await using at = await openTestDatabase();
    await using bouncer = await startPgBouncer(at);
    const database = await openBehind(bouncer, at);
    const session = await (await database.repo("default")).create({}, context);
    let isWriting = true;
    let aborted = 0;
    const reading = [1, 2, 3, 4].map(async () => {
      for (let turns = 0; isWriting; turns = (turns + 1) % 30) {
        const controller = new AbortController();
        const entries = session.findEntries(undefined, withAbortSignal(controller.signal, context));
        const outcome = entries.then(
          () => "answered",
          (error) => error.message,
        );
        // At any moment of the read, or after it.
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        controller.abort(new Error("enough"));
        expect(["answered", "enough"]).toContain(await outcome);
        if ((await outcome) === "enough") aborted++;
      }
    });
    const main = await session.createBranch("main", null, context);
    for (let step = 0; step < 100; step++) await main.appendCustomEntry("step", step, context);
    isWriting = false;
    await Promise.all(reading);
    const steps = await main.findEntries({ order: "oldestFirst" }, context);
    expect(steps).toMatchObject(Array.from({ length: 100 }, (_, step) => ({ data: step })));
    expect(aborted).toBeGreaterThan(0);
    await database.close();
  });

  test.each(["auto", false] as const)(
    "killing server connections loses no commit and doubles none, with preparedStatements %s",
    async (preparedStatements) => {
      await using at = await openTestDatabase();
      await using bouncer = await startPgBouncer(at, { settings: { server_login_retry: "1" } });
      const database = await openBehind(bouncer, at, { preparedStatements });
      const repo = await database.repo("default");
      const writers = await Promise.all(
        ["a", "b", "c", "d"].map(async (id) => ({ id, session: await repo.create({ id }, context) })),
      );
      const outcomes = new Map<string, string>();
      let killed = 0;
      for (let step = 0; step < 50; step++) {
        const killing = step % 5 === 4 ? killBackends(at) : undefined;
        await Promise.all(
          writers.map(async ({ id, session }) => {
            const entry = insertEntry({ id: `e${step}`, parentId: null, type: "custom", customType: "x" });
            const outcome = await session
              .mutate((mutator) => mutator.commit([entry], context), context)
              .then(
                () => "committed",
                (error) => error.code,
              );
            outcomes.set(`${id} e${step}`, outcome);
          }),
        );
        killed += (await killing) ?? 0;
      }
      await database.close();
      const reopened = await at.database.repo("default");
      const stored: string[] = [];
      for (const { id } of writers) {
        const entries = await (await reopened.open({ id }, context)).findEntries(undefined, context);
        stored.push(...entries.map((entry) => `${id} ${entry.id}`));
      }
      expect(stored).toHaveLength(new Set(stored).size);
      for (const [entry, outcome] of outcomes) {
        expect(outcome).toMatch(/^(committed|commit_outcome_unknown|database_connection_lost)$/);
        if (outcome !== "commit_outcome_unknown")
          expect(stored.includes(entry)).toBe(outcome === "committed");
      }
      expect([...outcomes.values()].filter((outcome) => outcome === "committed").length).toBeGreaterThan(100);
      expect(killed).toBeGreaterThan(0);
      await expectNothingLeft(bouncer.through(at.connectionString), 2);
    },
  );

  test("what it refuses a connection for is reported as such, and names the reason", async () => {
    await using at = await openTestDatabase();
    await using bouncer = await startPgBouncer(at, {
      settings: { max_client_conn: "1", auth_type: "plain" },
    });
    const only = new URL(bouncer.through(at.connectionString));
    const wrongPassword = new URL(only);
    wrongPassword.password = "wrong";
    const first = new Client(only.href);
    await first.connect();
    const refused = (url: URL) =>
      expect(openDatabase({ connectionString: url.href, schema: at.schema })).rejects;
    await refused(only).toMatchObject({
      code: "database_unreachable",
      message: expect.stringContaining("no more connections allowed"),
    });
    await first.end();
    await refused(wrongPassword).toMatchObject({
      code: "database_unreachable",
      message: expect.stringContaining("password authentication failed"),
    });
  });

  describe("prepared statements", () => {
    const PROGRAM = { serverConnections: 1 };

    test("that another connection prepared before are given up once, and nobody notices", async () => {
      await using at = await openTestDatabase();
      await using bouncer = await startPgBouncer(at, PROGRAM);
      const first = await openBehind(bouncer, at);
      const second = watchedPool(bouncer.through(at.connectionString));
      const database = await openDatabase({ pool: second.pool, schema: at.schema });
      await first.repo("default");
      const session = await (await database.repo("default")).create({}, context);
      await session.setName("kept", context);
      expect(await session.getName(context)).toBe("kept");
      expectOneFailure(second, "42P05");
      for (const program of [first, database]) await program.close();
      await second.pool.end();
    });

    test("that are gone with their server connection are given up once, and nobody notices", async () => {
      await using at = await openTestDatabase();
      await using bouncer = await startPgBouncer(at, PROGRAM);
      const watched = watchedPool(bouncer.through(at.connectionString));
      const database = await openDatabase({ pool: watched.pool, schema: at.schema });
      const session = await (await database.repo("default")).create({}, context);
      for (const name of ["one", "two"]) await session.setName(name, context);
      watched.forget();
      await bouncer.command("reconnect");
      for (const name of ["three", "four"]) await session.setName(name, context);
      expect(await session.getName(context)).toBe("four");
      expectOneFailure(watched, "26000");
      await database.close();
      await watched.pool.end();
    });

    test("reject with what to change if they are insisted on, and nothing is written", async () => {
      await using at = await openTestDatabase();
      await using bouncer = await startPgBouncer(at, PROGRAM);
      const database = await openBehind(bouncer, at, { preparedStatements: true });
      const session = await (await database.repo("default")).create({ id: "s" }, context);
      await session.setName("before", context);
      await bouncer.command("reconnect");
      const lost = {
        code: "prepared_statement_lost",
        message: expect.stringContaining("`preparedStatements`"),
      };
      await expect(session.setName("after", context)).rejects.toMatchObject(lost);
      await expect(database.repo("default")).rejects.toMatchObject(lost);
      await database.close();
      const reopened = await (await at.database.repo("default")).open({ id: "s" }, context);
      expect(await reopened.getName(context)).toBe("before");
    });

    /** Each is done to a session with a lane of two messages. */
    const OPERATIONS: Record<
      string,
      (repo: PgSessionRepo, session: PgSession, database: Database, tenant: string) => Promise<unknown>
    > = {
      create: (repo) => repo.create({ id: "created" }, context),
      commit: (_, session) =>
        session.mutate((mutator) => mutator.commit([setValue(value("x"), 1), usage("u")], context), context),
      "large commit": (_, session) =>
        session.mutate(
          (mutator) =>
            mutator.commit(
              Array.from({ length: 5_001 }, (_, index) => setValue(value("large", `${index}`), index)),
              context,
            ),
          context,
        ),
      "append to a branch": async (_, session) =>
        (await session.branch("main", context))?.appendCustomEntry("x", 1, context),
      "fork of a branch": async (repo, session) =>
        stateOf(await repo.fork(session.metadata, { scope: "branch", branch: "main", id: "f" }, context)),
      "fork of a tree": async (repo, session) =>
        stateOf(await repo.fork(session.metadata, { scope: "tree", id: "f" }, context)),
      import: async (repo) => {
        const { files, ...counts } = await importAll(repo.importer, [ARCHIVES], {}, context);
        return [counts, files.map(({ status }) => status), await repo.summarize(undefined, context)];
      },
      delete: async (repo) => {
        await (await repo.create({ id: "doomed" }, context)).close(context);
        await repo.delete({ id: "doomed" }, context);
      },
      scans: async (_, session) => [
        await session.findEntries({ limit: 1 }, context),
        await (await session.branch("main", context))?.findEntries({ order: "oldestFirst" }, context),
        await session.readList(list("log", "all"), undefined, context),
      ],
      "usage report": (_, __, { usage }, tenant) => usage.report({ tenant, by: ["day", "model"] }, context),
    };

    test.each(Object.keys(OPERATIONS))(
      "are given up in the middle, wherever one is lost first, and it happens once: %s",
      async (operation) => {
        await using at = await openTestDatabase();
        await using bouncer = await startPgBouncer(at, PROGRAM);
        const act = OPERATIONS[operation] as (typeof OPERATIONS)[string];
        let tenants = 0;
        const attempt = async (connectionString: string, lost?: string) => {
          const tenant = `tenant ${tenants++}`;
          await at.database.tenants.create({ slug: tenant });
          await createLane(await at.database.repo(tenant));
          const watched = watchedPool(connectionString, { max: 1 });
          const database = await openDatabase({ pool: watched.pool, schema: at.schema });
          const repo = await database.repo(tenant);
          const session = await repo.open({ id: "s" }, context);
          const before = new Set(watched.names());
          watched.forget();
          if (lost !== undefined) await takeName(connectionString, lost);
          const result = await act(repo, session, database, tenant);
          const needed = watched.names().filter((name) => !before.has(name));
          if (lost !== undefined) expectOneFailure(watched, "42P05");
          await database.close();
          await watched.pool.end();
          return { needed, observed: comparable([result, await allOf(at.database, tenant)]) };
        };
        const direct = await attempt(at.connectionString);
        expect(direct.needed.length).toBeGreaterThan(0);
        for (const name of direct.needed) {
          // Nobody's statements are left on the one server connection from the time before.
          await bouncer.command("reconnect");
          const { observed } = await attempt(bouncer.through(at.connectionString), name);
          expect(observed).toEqual(direct.observed);
        }
      },
    );
  });
});

/** A program that reaches the database through the pooler. */
function openBehind(bouncer: PgBouncer, at: TestDatabase, options: DatabaseOptions = {}): Promise<Database> {
  const connectionString = bouncer.through(at.connectionString);
  return openDatabase({ connectionString, schema: at.schema, applicationName: at.schema, ...options });
}

const usage = (id: string) =>
  insertUsage({
    id,
    adjustment: false,
    usage: {
      input: 1,
      output: 2,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 3,
      cost: { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3 },
    },
  });

/** A session `s` with a lane of two messages, a label, a list and a usage row. */
async function createLane(repo: PgSessionRepo, id = "s"): Promise<PgSession> {
  const session = await repo.create({ id, cwd: "/srv" }, context);
  const main = await session.createBranch("main", null, context);
  await session.setValue(
    laneConfig("main"),
    { model: { provider: "p", modelId: "m" }, thinkingLevel: "off", activeToolNames: [] },
    context,
  );
  await session.setValue(laneState("main"), idleLaneState(), context);
  const first = await main.appendMessage({ role: "user", content: `hello ${id}`, timestamp: 1 }, context);
  await main.appendMessage({ role: "user", content: "again", timestamp: 2 }, context);
  await session.setLabel(first, "start", context);
  await session.appendList(list("log", "all"), { id }, context);
  await session.mutate((mutator) => mutator.commit([usage(`u ${id}`)], context), context);
  return session;
}

/** All that one program does for a tenant, and everything that it sees. */
async function live(database: Database, tenant: string, program: string): Promise<unknown> {
  const seen: unknown[] = [];
  const repo = await database.repo(tenant);
  const ids = ["a", "b", "c", "d"].map((letter) => `${tenant} ${program} ${letter}`);
  const sessions = await Promise.all(ids.map((id) => createLane(repo, id)));
  await Promise.all(
    sessions.map(async (session, index) => {
      const main = await session.branch("main", context);
      for (let step = 0; step < 10; step++) {
        await main?.appendCustomEntry("step", { tenant, program, index, step }, context);
        await session.setName(`${tenant} ${step}`, context);
      }
    }),
  );
  for (const session of sessions) {
    const main = await session.branch("main", context);
    seen.push(
      await stateOf(session, { namespaces: [], lists: [["log", "all"]] }),
      await main?.findEntries({ limit: 3 }, context),
      await main?.findEntries({ order: "oldestFirst", type: "custom", limit: 2 }, context),
      await session.findEntries({ type: "message", order: "asc" }, context),
    );
  }
  const [first, second, ...others] = sessions as [PgSession, PgSession, ...PgSession[]];
  const tree = await repo.fork(first.metadata, { scope: "tree", id: `${first.metadata.id} tree` }, context);
  const branch = await repo.fork(
    second.metadata,
    { scope: "branch", branch: "main", id: `${second.metadata.id} branch` },
    context,
  );
  seen.push(await stateOf(tree), await stateOf(branch));
  for (const session of others) {
    await session.close(context);
    await repo.delete(session.metadata, context);
    await expect(repo.open(session.metadata, context)).rejects.toMatchObject({ code: "session_not_found" });
  }
  const archives = `${tenant} ${program}`;
  await database.tenants.create({ slug: archives });
  const { importer } = await database.repo(archives);
  const report = await importAll(importer, [ARCHIVES], {}, context);
  seen.push(report.files, await allOf(database, archives));
  const own = ({ id }: { id: string }) => id.startsWith(`${tenant} ${program}`);
  const byId = (left: { id: string }, right: { id: string }) => (left.id < right.id ? -1 : 1);
  seen.push((await repo.list(undefined, context)).filter(own).sort(byId));
  const rows = await database.withTenant(tenant, (kysely) =>
    kysely.selectFrom("sessions").select("session_id as id").where("cwd", "=", "/srv").execute(),
  );
  seen.push(rows.filter(own).sort(byId));
  await repo.close(context);
  return comparable(seen);
}

/** Everything in a tenant. */
async function allOf(database: Database, tenant: string): Promise<unknown[]> {
  const repo = await database.repo(tenant);
  const summaries = (await repo.summarize(undefined, context)).sort((left, right) =>
    left.metadata.id < right.metadata.id ? -1 : 1,
  );
  const all: unknown[] = [summaries];
  for (const { metadata } of summaries) {
    all.push(
      await stateOf(await repo.open(metadata, context), {
        namespaces: ["x", "large"],
        lists: [["log", "all"]],
      }),
    );
  }
  await repo.close(context);
  return all;
}

/** Without the times, and with new ids numbered as they appear. */
function comparable(observed: unknown): unknown {
  const numbers = new Map<string, string>();
  const text = JSON.stringify(observed, (key, part) =>
    ["createdAt", "modifiedAt", "timestamp"].includes(key) ? 0 : part,
  ).replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
    if (!numbers.has(id)) numbers.set(id, `id ${numbers.size}`);
    return numbers.get(id) as string;
  });
  return JSON.parse(text);
}

/** A statement that was sent, and the code that it failed with. */
interface Sent {
  text: string;
  name?: string | undefined;
  failure?: string;
}

interface WatchedPool {
  readonly pool: Pool;
  /** In order. */
  readonly sent: Sent[];
  /** Those of prepared statements, each once. */
  names(): string[];
  forget(): void;
}

/** What the driver calls for each message. */
interface WatchedConnection extends NodeJS.EventEmitter {
  parse(message: { name?: string; text: string }): void;
  bind(message: { statement?: string }): void;
  query(text: string): void;
}

function watch<K extends "parse" | "bind" | "query">(
  connection: WatchedConnection,
  message: K,
  onMessage: (content: Parameters<WatchedConnection[K]>[0]) => void,
): void {
  const send = connection[message].bind(connection) as (content: unknown) => void;
  Object.assign(connection, {
    [message]: (content: Parameters<WatchedConnection[K]>[0]) => {
      onMessage(content);
      send(content);
    },
  });
}

/** A pool that takes down what goes over its connections. */
function watchedPool(connectionString: string, { max = 4 } = {}): WatchedPool {
  const pool = new Pool({ connectionString, max });
  const sent: Sent[] = [];
  pool.on("connect", (client: ClientBase) => {
    const { connection } = client as unknown as { connection: WatchedConnection };
    const texts = new Map<string, string>();
    const unanswered: Sent[] = [];
    const send = (statement: Sent) => {
      sent.push(statement);
      unanswered.push(statement);
    };
    watch(connection, "parse", ({ name = "", text }) => texts.set(name, text));
    watch(connection, "bind", ({ statement: name = "" }) => {
      send({ text: texts.get(name) ?? "", name: name === "" ? undefined : name });
    });
    watch(connection, "query", (text) => send({ text }));
    connection.on("commandComplete", () => unanswered.shift());
    connection.on("errorMessage", ({ code }: { code: string }) => {
      const [failed] = unanswered.splice(0); // the server leaves out the others
      if (failed !== undefined) failed.failure = code;
    });
  });
  return {
    pool,
    sent,
    names: () => [...new Set(sent.flatMap(({ name }) => name ?? []))],
    forget: () => {
      sent.length = 0;
    },
  };
}

/** Exactly one statement failed for that reason, and none was prepared after what was sent with it. */
function expectOneFailure({ sent }: WatchedPool, code: string): void {
  expect(sent.filter(({ failure }) => failure === code)).toHaveLength(1);
  const end = sent.findIndex(({ failure }) => failure === code);
  const rest = sent.slice(end).findIndex(({ text }) => text === "commit" || text === "rollback");
  expect(sent.slice(end + rest + 1).filter(({ name }) => name !== undefined)).toEqual([]);
}

/** Makes the next preparation of a statement with this name fail, on the pooler's only server connection. */
async function takeName(connectionString: string, name: string): Promise<void> {
  const client = new Client(connectionString);
  await client.connect();
  await client.query(`prepare "${name}" as select 1`);
  await client.end();
}

/** @param connections how many there may be; transactions hold them all at once */
async function expectNothingLeft(connectionString: string, connections: number): Promise<void> {
  const clients = Array.from({ length: connections }, () => new Client(connectionString));
  const found = [];
  for (const client of clients) {
    await client.connect();
    await client.query("begin");
    // PgBouncer itself sets these for each client.
    const { rows } = await client.query(`
      select pg_backend_pid() as pid,
        nullif(current_setting('pi_sessions.tenant', true), '') as tenant,
        array(
          select name from pg_settings
          where source = 'session' and name not in
            ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')
        ) as settings,
        (select count(*)::int from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') as locks`);
    found.push(rows[0]);
  }
  for (const client of clients) {
    await client.query("rollback");
    await client.end();
  }
  expect(new Set(found.map(({ pid }) => pid)).size).toBe(connections);
  for (const left of found) expect(left).toMatchObject({ tenant: null, settings: [], locks: 0 });
}

/** Runs `work` while a lock makes every reader of values wait. */
async function whileLocked(at: TestDatabase, work: () => Promise<void>): Promise<void> {
  const client = await at.admin.connect();
  try {
    await client.query("begin");
    await client.query(`lock table "${at.schema}".scalar_values in access exclusive mode`);
    await work();
  } finally {
    await client.query("rollback");
    client.release();
  }
}

function startReading(session: PgSession) {
  const controller = new AbortController();
  const reading = session.getName(withAbortSignal(controller.signal, context));
  return {
    aborted: expect(reading).rejects.toThrow("enough"),
    abort: () => controller.abort(new Error("enough")),
  };
}

/** Resolves as soon as a backend waits for the lock (or, with `none`, no more). */
async function backendsWaiting(at: TestDatabase, { none = false } = {}): Promise<void> {
  for (;;) {
    const { rows } = await at.admin.query(
      `select from pg_locks as l join pg_class as c on c.oid = l.relation
       where not l.granted and c.relnamespace = $1::regnamespace`,
      [at.schema],
    );
    if ((rows.length === 0) === none) return;
  }
}

/** Resolves as soon as a client waits for a server connection. */
async function clientsWaiting(bouncer: PgBouncer): Promise<void> {
  for (;;) {
    const pools = await bouncer.command("show pools");
    if (pools.some(({ cl_waiting }) => Number(cl_waiting) > 0)) return;
  }
}

/** All connections of this test's programs to the server. Resolves to their number. */
async function killBackends(at: TestDatabase): Promise<number> {
  const { rows } = await at.admin.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1",
    [at.schema],
  );
  return rows.length;
}
