import { expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  insertEntry,
  openDatabase,
  PiSessionError,
  withAbortSignal,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

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

test("a commit whose connection is killed before it could commit says that nothing happened, and the next one works", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  await whileLocked(at, "scalar_values", async () => {
    const commit = session.setName("lost", context);
    const outcome = expect(commit).rejects.toMatchObject({ code: "database_connection_lost" });
    for (const pid of await waitingBackends(at, applicationName)) {
      await at.admin.query("select pg_terminate_backend($1)", [pid]);
    }
    await outcome;
  });
  expect(await session.getName(context)).toBeUndefined();
  await session.setName("kept", context);
  expect(await session.getName(context)).toBe("kept");
  await database.close();
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

test("killing connections all the time loses no acknowledged commit, invents none and ends no process", async () => {
  await using at = await openTestDatabase();
  const { applicationName, database, session } = await open(at);
  const acknowledged = new Set<string>();
  const refused = new Set<string>();
  const kill = () =>
    at.admin.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", [
      applicationName,
    ]);
  for (let index = 0; index < 100; index++) {
    const id = `e${index}`;
    // At any moment of every fifth commit; the one after it may find the connection dead.
    const killing = index % 5 === 4 ? kill() : undefined;
    try {
      const entry = insertEntry({ id, parentId: null, type: "custom", customType: "x" });
      await session.mutate((mutator) => mutator.commit([entry], context), context);
      acknowledged.add(id);
    } catch (error) {
      expect(error).toBeInstanceOf(PiSessionError);
      if ((error as PiSessionError).code !== "commit_outcome_unknown") refused.add(id);
    }
    await killing;
  }
  await database.close();
  const reopened = await (await at.database.repo("default")).open(session.metadata, context);
  const stored = new Set((await reopened.findEntries(undefined, context)).map(({ id }) => id));
  expect([...acknowledged].filter((id) => !stored.has(id))).toEqual([]);
  expect([...refused].filter((id) => stored.has(id))).toEqual([]);
  expect(acknowledged.size).toBeGreaterThanOrEqual(60);
});
