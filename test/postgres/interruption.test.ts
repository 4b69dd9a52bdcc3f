import { describe, expect, test } from "vitest";
import {
  appendList,
  BACKGROUND_CONTEXT as context,
  type Database,
  entryLabel,
  insertEntry,
  list,
  openDatabase,
  type PgSessionRepo,
  sessionName,
  setValue,
  value,
  withAbortSignal,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { type LossyProxy, openLossyProxy } from "../support/lossy-proxy.ts";

/** A database whose connections can be told from all others, and one of its sessions. */
async function open(at: TestDatabase) {
  const applicationName = `app_${at.schema}`;
  const database = await openDatabase({
    connectionString: at.connectionString,
    schema: at.schema,
    applicationName,
  });
  const repo = await database.repo("default");
  return { applicationName, database, session: await repo.create({}, context) };
}

/** Runs `work` while a lock on the table makes every statement of others on it wait. */
async function whileLocked(at: TestDatabase, table: string, work: () => Promise<void>): Promise<void> {
  const client = await at.admin.connect();
  try {
    await client.query("begin");
    await client.query(`lock table "${at.schema}".${table} in access exclusive mode`);
    await work();
  } finally {
    await client.query("rollback");
    client.release();
  }
}

/** Resolves to the backends that wait for a lock, as soon as there are any (or, with `none`, no more). */
async function waitingBackends(
  at: TestDatabase,
  applicationName: string,
  { none = false } = {},
): Promise<number[]> {
  for (;;) {
    const { rows } = await at.admin.query<{ pid: number }>(
      "select pid from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'",
      [applicationName],
    );
    if ((rows.length === 0) === none) return rows.map(({ pid }) => pid);
  }
}

test("a commit whose connection is killed before it could commit is sent again, and happens once", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  let commit: Promise<void> | undefined;
  await whileLocked(at, "scalar_values", async () => {
    commit = session.setName("kept", context);
    const [pid] = await waitingBackends(at, applicationName);
    await at.admin.query("select pg_terminate_backend($1)", [pid]);
    while ((await waitingBackends(at, applicationName)).includes(pid as number));
  });
  await commit;
  expect(await session.getName(context)).toBe("kept");
  expect(await session.getValue(sessionName, context)).toMatchObject({ seq: 1 });
  await session.setLabel("x", "the next one", context);
  expect(await session.getValue(entryLabel("x"), context)).toMatchObject({ seq: 2 });
  await database.close();
});

describe("when the answer to a commit is lost", () => {
  const entry = (id: string) => insertEntry({ id, parentId: null, type: "custom", customType: "x" });

  /** Two processes on one session; the first one's way to the server can lose an answer. */
  async function openTwo(at: TestDatabase, proxy: LossyProxy) {
    const { schema } = at;
    const database = await openDatabase({ connectionString: proxy.connectionString, schema });
    const storage = await (await database.repo("default")).createStorage({ id: "s" }, context);
    const other = await (await at.database.repo("default")).openStorage({ id: "s" }, context);
    return { database, storage, other };
  }

  test("the commit is found to have happened", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, storage, other } = await openTwo(at, proxy);
    const cut = proxy.loseNextCommit();
    const commit = storage.commit([entry("a"), setValue(value("v"), 1)], context);
    await cut;
    proxy.release();
    expect(await commit).toMatchObject({ firstSeq: 1, seqs: [1, 2] });
    expect(await storage.commit([entry("b")], context)).toMatchObject({ firstSeq: 3 });
    expect((await other.scanEntries({}, context)).map(({ id, seq }) => [id, seq])).toEqual([
      ["a", 1],
      ["b", 3],
    ]);
    await database.close();
  });

  test("also behind what others have committed since", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, storage, other } = await openTwo(at, proxy);
    const cut = proxy.loseNextCommit();
    const commit = storage.commit([entry("a")], context);
    await cut;
    await other.commit([entry("others")], context);
    proxy.release();
    expect(await commit).toMatchObject({ firstSeq: 1, seqs: [1] });
    expect(await storage.commit([entry("b")], context)).toMatchObject({ firstSeq: 3 });
    await database.close();
  });

  test("and where nothing can tell, the error says so", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, storage, other } = await openTwo(at, proxy);
    const cut = proxy.loseNextCommit();
    const commit = storage.commit([appendList(list("l"), 1)], context);
    const outcome = expect(commit).rejects.toMatchObject({ code: "commit_outcome_unknown" });
    await cut;
    await other.commit([appendList(list("l"), 1)], context);
    proxy.release();
    await outcome;
    expect(await storage.readList(list("l"), undefined, context)).toHaveLength(2);
    await database.close();
  });

  test("a large commit, whose commit is a message of its own, is found as well", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, storage, other } = await openTwo(at, proxy);
    const cut = proxy.loseNextCommit();
    const commit = storage.commit(
      Array.from({ length: 6000 }, (_, n) => entry(`e${n}`)),
      context,
    );
    await cut;
    proxy.release();
    expect(await commit).toMatchObject({ firstSeq: 1 });
    expect(await other.scanEntries({}, context)).toHaveLength(6000);
    await database.close();
  });
});

describe("what may as well be done twice is done again when its answer gets lost", () => {
  const operations: Record<string, (at: { database: Database; repo: PgSessionRepo }) => Promise<unknown>> = {
    "a roll-up": ({ database: { usage } }) => usage.rollUp({ tenant: "default" }, context),
    "a rebuild of the sums": ({ database: { usage } }) => usage.rebuild({ tenant: "default" }, context),
    "setting a budget": ({ database: { usage } }) =>
      usage.budget.set("default", { period: "day", amount: 1 }, context),
    "removing a budget": ({ database: { usage } }) => usage.budget.remove("default", "day", context),
    "the metadata of a session": ({ repo }) => repo.setMetadata({ id: "s" }, { team: "red" }, context),
    "opening for one writer alone": ({ repo }) => repo.openStorage({ id: "s" }, context, { exclusive: true }),
    "the limits of a tenant": ({ database: { tenants } }) => tenants.setLimits("default", { sessions: 9 }),
    "changing a tenant": ({ database: { tenants } }) => tenants.rename("default", "Default"),
  };

  test.each(Object.entries(operations))("%s", async (_, operation) => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.ownerConnectionString);
    const database = await openDatabase({ connectionString: proxy.connectionString, schema: at.schema });
    const repo = await database.repo("default");
    await repo.createStorage({ id: "s" }, context);
    const cut = proxy.loseNextCommit();
    const done = operation({ database, repo });
    await cut;
    proxy.release();
    await done;
    await database.close();
  });
});

describe("when the answer to adding or removing a session is lost", () => {
  const entry = insertEntry({ id: "a", parentId: null, type: "custom", customType: "x" });

  /** A repository whose next commit loses its answer. */
  async function openLossy(at: TestDatabase, proxy: LossyProxy) {
    const database = await openDatabase({ connectionString: proxy.connectionString, schema: at.schema });
    const repo = await database.repo("default");
    const lose = async <T>(operation: () => Promise<T>, meanwhile?: () => Promise<unknown>): Promise<T> => {
      const cut = proxy.loseNextCommit();
      const done = operation();
      done.catch(() => {}); // awaited below
      await cut;
      await meanwhile?.();
      proxy.release();
      return await done;
    };
    return { database, repo, lose, other: await at.database.repo("default") };
  }

  test("a session that was created is returned, and can be written", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose, other } = await openLossy(at, proxy);
    const session = await lose(() => repo.create({ id: "s", cwd: "/srv", metadata: { a: 1 } }, context));
    expect(session.metadata).toMatchObject({ id: "s", cwd: "/srv", metadata: { a: 1 } });
    await session.setName("mine", context);
    expect(await other.list(undefined, context)).toEqual([session.metadata]);
    await database.close();
  });

  test("also where it was the last that its tenant may have", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose } = await openLossy(at, proxy);
    await at.owner.tenants.setLimits("default", { sessions: 1 });
    expect((await lose(() => repo.create({ id: "s" }, context))).metadata.id).toBe("s");
    await expect(repo.create({ id: "t" }, context)).rejects.toMatchObject({ code: "tenant_limit" });
    await database.close();
  });

  test("another's session with the same id is not taken for it", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose, other } = await openLossy(at, proxy);
    const again = lose(
      () => repo.create({ id: "t" }, context),
      async () => {
        await other.delete({ id: "t" }, context);
        await other.create({ id: "t" }, context);
      },
    );
    await expect(again).rejects.toMatchObject({ code: "session_exists" });
    await database.close();
  });

  test("and where others have written to it since, the error says that it cannot be told", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose, other } = await openLossy(at, proxy);
    const created = lose(
      () => repo.create({ id: "s" }, context),
      async () => (await other.openStorage({ id: "s" }, context)).commit([entry], context),
    );
    await expect(created).rejects.toMatchObject({ code: "commit_outcome_unknown" });
    await database.close();
  });

  test("a fork is returned, and goes on from its source's next write", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose, other } = await openLossy(at, proxy);
    const storage = await repo.createStorage({ id: "s" }, context);
    await storage.commit([entry], context);
    const fork = await lose(
      () => repo.fork({ id: "s" }, { id: "f", scope: "tree" }, context),
      () => other.delete({ id: "s" }, context),
    );
    expect(fork.metadata).toMatchObject({ id: "f", parentSessionId: "s" });
    await fork.setName("fork", context);
    expect(await fork.getValue(sessionName, context)).toMatchObject({ seq: 2 });
    expect(await fork.findEntries({}, context)).toMatchObject([{ id: "a" }]);
    await database.close();
  });

  test("a session that was deleted is gone, without an error", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose, other } = await openLossy(at, proxy);
    await other.create({ id: "s" }, context);
    await lose(() => repo.delete({ id: "s" }, context));
    expect(await other.list(undefined, context)).toEqual([]);
    await expect(repo.delete({ id: "s" }, context)).rejects.toMatchObject({ code: "session_not_found" });
    await database.close();
  });

  test("aborting meanwhile does not leave it open", async () => {
    await using at = await openTestDatabase();
    await using proxy = await openLossyProxy(at.connectionString);
    const { database, repo, lose } = await openLossy(at, proxy);
    const controller = new AbortController();
    const created = lose(
      () => repo.create({ id: "s" }, withAbortSignal(controller.signal, context)),
      async () => controller.abort(),
    );
    expect((await created).metadata.id).toBe("s");
    await database.close();
  });
});

test("aborting a read that runs rejects with the reason and cancels it in the server", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  await whileLocked(at, "scalar_values", async () => {
    const controller = new AbortController();
    const reading = session.getName(withAbortSignal(controller.signal, context));
    const outcome = expect(reading).rejects.toThrow("enough");
    await waitingBackends(at, applicationName);
    controller.abort(new Error("enough"));
    await outcome;
    await waitingBackends(at, applicationName, { none: true });
  });
  expect(await session.getName(context)).toBeUndefined();
  await database.close();
});

test("aborting a commit that was sent does not undo it", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  let commit: Promise<void> | undefined;
  await whileLocked(at, "scalar_values", async () => {
    const controller = new AbortController();
    commit = session.setName("kept", withAbortSignal(controller.signal, context));
    await waitingBackends(at, applicationName);
    controller.abort();
  });
  await commit;
  expect(await session.getName(context)).toBe("kept");
  await database.close();
});

test("closing waits for a commit that was admitted, and admits nothing more", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  let commit: Promise<void> | undefined;
  let closing: Promise<void> | undefined;
  await whileLocked(at, "scalar_values", async () => {
    commit = session.setName("kept", context);
    await waitingBackends(at, applicationName);
    closing = session.close(context);
    await expect(session.setName("late", context)).rejects.toMatchObject({ code: "session_closed" });
  });
  await Promise.all([commit, closing]);
  const reopened = await (await database.repo("default")).open(session.metadata, context);
  expect(await reopened.getName(context)).toBe("kept");
  await database.close();
});

test("killing connections all the time loses no commit, doubles none and ends no process", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  const kill = () =>
    at.admin.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", [
      applicationName,
    ]);
  for (let index = 0; index < 100; index++) {
    // At any moment of every fifth commit; the one after it may find the connection dead.
    const killing = index % 5 === 4 ? kill() : undefined;
    const entry = insertEntry({ id: `e${index}`, parentId: null, type: "custom", customType: "x" });
    await session.mutate((mutator) => mutator.commit([entry], context), context);
    await killing;
  }
  await database.close();
  const reopened = await (await at.database.repo("default")).open(session.metadata, context);
  const stored = await reopened.findEntries({ order: "asc" }, context);
  expect(stored.map(({ id, seq }) => [id, seq])).toEqual(
    Array.from({ length: 100 }, (_, index) => [`e${index}`, index + 1]),
  );
});
