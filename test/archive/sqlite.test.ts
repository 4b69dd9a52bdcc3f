import { randomUUID } from "node:crypto";
import { copyFile, readdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { createNodeSqliteFactory, SqliteSessionRepo } from "@earendil-works/pi-session-backend-sqlite-node";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { insertEntry, type Session, setValue, value, type Write } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { conversation, converse, LISTS, NAMESPACES } from "./conversation.ts";
import { exportTo } from "./exported.ts";
import { inPi } from "./pi.ts";
import { type Scratch, scratch } from "./scratch.ts";
import { type State, stateOf } from "./state.ts";

const PLACES = { namespaces: NAMESPACES, lists: LISTS };

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

async function emptyRepo(): Promise<PgSessionRepo> {
  const tenant = randomUUID();
  await database.database.tenants.create({ slug: tenant });
  return database.database.repo(tenant);
}

/** pi's repository: a file for each session, or one for all of them. */
function piRepo({ path }: Scratch, databasePath?: string): SqliteSessionRepo {
  const databaseFactory = createNodeSqliteFactory();
  return new SqliteSessionRepo({
    directory: path,
    databaseFactory,
    ...(databasePath === undefined ? {} : { databasePath }),
  });
}

type PiSession = Awaited<ReturnType<SqliteSessionRepo["create"]>>;

async function stateInPi(session: PiSession): Promise<State> {
  return stateOf(session as unknown as Session, PLACES);
}

async function stateHere(repo: PgSessionRepo, id: string): Promise<State> {
  const session = await repo.open({ id }, context);
  return stateOf(session, PLACES).finally(() => session.close(context));
}

/** Writes sessions and closes them. @returns their states by id */
async function written(pis: SqliteSessionRepo, conversations: Parameters<typeof converse>[1][]) {
  const states = new Map<string, State>();
  for (const [number, steps] of conversations.entries()) {
    const session = await pis.create({ id: `s/${number}`, parentSessionId: "parent" }, context);
    await converse(session as never, steps);
    states.set(session.metadata.id, await stateInPi(session));
    await session.close(context);
  }
  await pis.close(context);
  return states;
}

describe("sessions of pi's SQLite backend", () => {
  test.each([
    ["one in each file", undefined],
    ["many in one file", "shared.db"],
  ])("%s are imported in the same state", async (_, shared) => {
    await fc.assert(
      fc.asyncProperty(fc.array(conversation(), { minLength: 1, maxLength: 4 }), async (conversations) => {
        await using directory = await scratch();
        const path = shared === undefined ? undefined : join(directory.path, shared);
        const states = await written(piRepo(directory, path), conversations);
        const before = await readdir(directory.path);
        const repo = await emptyRepo();
        const report = await importAll(repo.importer, directory.path, {}, context);
        expect(report).toMatchObject({ imported: states.size, skipped: 0, failed: 0 });
        for (const [id, state] of states) expect(await stateHere(repo, id)).toEqual(state);
        // It was only read.
        expect(await readdir(directory.path)).toEqual(before);
        const again = await importAll(repo.importer, directory.path, {}, context);
        expect(again).toMatchObject({ imported: 0, unchanged: states.size, failed: 0 });
      }),
      { numRuns: 15 },
    );
  });

  test("a fork has its parent, and an empty ledger", async () => {
    await using directory = await scratch();
    const pis = piRepo(directory);
    const [steps] = fc.sample(conversation(undefined, 40), { seed: 5, numRuns: 1 });
    const source = await pis.create({ id: "source" }, context);
    await converse(source as never, steps ?? []);
    const fork = await pis.fork(source.metadata, { id: "fork", scope: "tree" }, context);
    const state = await stateInPi(fork);
    await pis.close(context);
    const repo = await emptyRepo();
    expect(await importAll(repo.importer, directory.path, {}, context)).toMatchObject({ imported: 2 });
    expect(await stateHere(repo, "fork")).toEqual(state);
    expect(state.metadata["parentSessionId"]).toBe("source");
    expect(state.stats.usage.totalTokens).toBe(0);
  });

  test("one that a program has open is imported as it is at one moment", async () => {
    await using directory = await scratch();
    const pis = piRepo(directory);
    const session = await pis.create({ id: "busy" }, context);
    // Each commit adds an entry and counts it.
    const writes = (count: number): Write[] => [
      insertEntry({
        type: "custom",
        customType: "x",
        id: `e${count}`,
        parentId: null,
        data: "x".repeat(20_000),
      }),
      setValue(value("app", "count"), count),
    ];
    const commit = (count: number) =>
      session.mutate((mutator) => mutator.commit(writes(count) as never, context), context);
    for (let count = 1; count <= 200; count++) await commit(count);
    const repo = await emptyRepo();
    let isOver = false;
    const importing = importAll(repo.importer, directory.path, {}, context).finally(() => {
      isOver = true;
    });
    let last = 200;
    while (!isOver) {
      await commit(++last);
      await setImmediate();
    }
    expect(await importing).toMatchObject({ imported: 1 });
    expect(last).toBeGreaterThan(201);
    const imported = await stateHere(repo, "busy");
    expect(imported.values).toMatchObject([{ value: imported.entries.length }]);
    const changed = await importAll(repo.importer, directory.path, {}, context);
    expect(changed.files).toMatchObject([{ status: "failed", code: "session_exists", sessionId: "busy" }]);
    await pis.close(context);
  });

  test("exports as the file that pi's JSONL backend opens in the same state", async () => {
    await using directory = await scratch();
    const [steps] = fc.sample(conversation(undefined, 40), { seed: 9, numRuns: 1 });
    const states = await written(piRepo(directory), [steps ?? []]);
    const repo = await emptyRepo();
    await importAll(repo.importer, directory.path, {}, context);
    for (const format of ["original", "v4"] as const) {
      const { path } = await exportTo(join(directory.path, format), repo, "s/0", format);
      const { metadata, ...state } = await inPi(path, (session) => stateOf(session, PLACES));
      // A JSONL file has a working directory.
      expect({ ...state, metadata: { ...metadata, cwd: undefined } }).toEqual(states.get("s/0"));
    }
  });
});

describe("a database that cannot be imported", () => {
  test("is skipped in a directory if it is something else, and refused if it was named", async () => {
    await using directory = await scratch();
    const other = join(directory.path, "other.db");
    using notes = new DatabaseSync(other);
    notes.exec("create table notes (text)");
    await writeFile(join(directory.path, "empty.db"), "");
    await writeFile(join(directory.path, "text.sqlite"), "no database");
    const { importer } = await emptyRepo();
    const report = await importAll(importer, directory.path, {}, context);
    expect(report).toMatchObject({ skipped: 3, failed: 0 });
    const named = await importAll(importer, other, {}, context);
    expect(named.files).toMatchObject([
      { status: "failed", code: "not_an_archive", reason: expect.stringContaining("no pi sessions") },
    ]);
  });

  test("tells the session that is at fault, and imports the others", async () => {
    await using directory = await scratch();
    const path = join(directory.path, "shared.sqlite");
    await written(piRepo(directory, path), [[], [], []]);
    using raw = new DatabaseSync(path);
    raw.exec("update sessions set storage_version = 2 where id = 's/1'");
    const repo = await emptyRepo();
    const { files } = await importAll(repo.importer, path, {}, context);
    expect(files).toMatchObject([
      { status: "imported", sessionId: "s/0", path },
      { status: "failed", code: "unsupported_version", sessionId: "s/1", path },
      { status: "imported", sessionId: "s/2", path },
    ]);
  });

  test("is refused when it is damaged", async () => {
    await using directory = await scratch();
    const [steps] = fc.sample(conversation(undefined, 40), { seed: 9, numRuns: 1 });
    await written(piRepo(directory), [steps ?? []]);
    const [name] = await readdir(directory.path);
    const path = join(directory.path, name as string);
    const cut = join(directory.path, "cut.sqlite");
    await copyFile(path, cut);
    await truncate(cut, 20_000);
    const { importer } = await emptyRepo();
    const { files } = await importAll(importer, cut, {}, context);
    expect(files).toMatchObject([{ status: "failed", code: "unreadable" }]);
  });
});

test("values and marks of other programs in a container stay as they are", async () => {
  await using directory = await scratch();
  const pis = piRepo(directory);
  const session = await pis.create({ id: "marked" }, context);
  const writes = [setValue(value<unknown>("app", "é😀"), { nested: [null, "\0", "\ud800"] })];
  await session.mutate((mutator) => mutator.commit(writes as never, context), context);
  await pis.close(context);
  const repo = await emptyRepo();
  await importAll(repo.importer, directory.path, {}, context);
  const here = await repo.open({ id: "marked" }, context);
  expect((await here.getValue(value<unknown>("app", "é😀"), context))?.value).toEqual({
    nested: [null, "\0", "\ud800"],
  });
  await here.close(context);
});
