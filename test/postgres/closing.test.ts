import { expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  insertEntry,
  openDatabase,
  setValue,
  value,
  withAbortSignal,
} from "../../src/index.ts";
import { openTestDatabase } from "../support/database.ts";

test("closing a database waits for everything that was admitted, and admits nothing more", async () => {
  await using at = await openTestDatabase();
  const database = await openDatabase({ connectionString: at.connectionString, schema: at.schema });
  const repo = await database.repo("default");
  const storage = await repo.createStorage({}, context);
  const lists = Array.from({ length: 40 }, () => repo.list(undefined, context));
  const creating = repo.create({ id: "last" }, context);
  const committing = storage.commit([setValue(value("x"), 1)], context);
  await database.close();
  expect((await Promise.all(lists)).map(({ length }) => length).every((length) => length >= 1)).toBe(true);
  expect((await creating).metadata.id).toBe("last");
  expect((await committing).seqs).toEqual([1]);
  await expect(repo.list(undefined, context)).rejects.toMatchObject({ code: "database_closed" });
  await expect(storage.getStats(context)).rejects.toMatchObject({ code: "session_closed" });
});

test("a session that is created while its repository closes is created and closed", async () => {
  await using at = await openTestDatabase();
  const repo = await at.database.repo("default");
  const creating = repo.create({ id: "last" }, context);
  await repo.close(context);
  const session = await creating;
  await expect(session.getStats(context)).rejects.toMatchObject({ code: "session_closed" });
  await expect(repo.create({}, context)).rejects.toMatchObject({ code: "database_closed" });
  await (await (await at.database.repo("default")).open({ id: "last" }, context)).close(context);
});

test("who waits for a mutation and is aborted leaves the line, and the others go on", async () => {
  await using at = await openTestDatabase();
  const session = await (await at.database.repo("default")).create({}, context);
  const first = await session.beginMutation(context);
  const controller = new AbortController();
  const second = session.beginMutation(withAbortSignal(controller.signal, context));
  const third = session.setName("third", context);
  controller.abort(new Error("enough"));
  await expect(second).rejects.toThrow("enough");
  await first.end(context);
  await third;
  expect(await session.getName(context)).toBe("third");
  await session.close(context);
});

test("a write that cannot be stored is named by its place in the commit, however large", async () => {
  await using at = await openTestDatabase();
  const storage = await (await at.database.repo("default")).createStorage({}, context);
  const writes = Array.from({ length: 6_000 }, (_, index) =>
    insertEntry({ id: `e${index}`, parentId: null, type: "custom", customType: "x" }),
  );
  const bad = setValue(value("bad"), 1n);
  await expect(
    storage.commit([...writes.slice(0, 5_500), bad, ...writes.slice(5_500)], context),
  ).rejects.toMatchObject({
    code: "invalid_write",
    index: 5_500,
  });
});

test.each([true, false])(
  "commits, reads and forks work with preparedStatements %s",
  async (preparedStatements) => {
    await using at = await openTestDatabase();
    const { connectionString, schema } = at;
    const database = await openDatabase({ connectionString, schema, preparedStatements });
    const repo = await database.repo("default");
    const session = await repo.create({}, context);
    const main = await session.createBranch("main", null, context);
    for (let index = 0; index < 10; index++) await main.appendCustomEntry("step", index, context);
    const fork = await repo.fork(session.metadata, { scope: "tree" }, context);
    expect(await (await fork.branch("main", context))?.findEntries(undefined, context)).toHaveLength(10);
    await database.close();
  },
);
