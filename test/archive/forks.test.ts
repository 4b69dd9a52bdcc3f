import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { jsonl, scratch } from "./scratch.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** Imports these files in this order into one tenant. @returns input tokens of the session with this id */
async function billed(paths: readonly string[], sessionId: string): Promise<number> {
  const tenant = randomUUID();
  await database.database.tenants.create({ slug: tenant });
  const repo = await database.database.repo(tenant);
  for (const path of paths) {
    const { files } = await importAll(repo.importer, [path], {}, context);
    expect(files).toMatchObject([{ status: "imported" }]);
  }
  const session = await repo.open({ id: sessionId }, context);
  const { usage } = await session.getStats(context);
  await session.close(context);
  return usage.input;
}

const zero = { output: 0, cacheRead: 0, cacheWrite: 0 };
const cost = { ...zero, input: 0, total: 0 };
const spent = (input: number) => ({
  role: "assistant",
  content: [],
  provider: "p",
  model: "m",
  usage: { ...zero, input, totalTokens: input, cost },
  timestamp: 1,
});
const at = (second: number) => new Date(Date.UTC(2025, 0, 1) + second * 1000).toISOString();
const message = (id: string, parentId: string | null, second: number, input: number) => ({
  type: "message",
  id,
  parentId,
  timestamp: at(second),
  message: spent(input),
});
const header = (id: string, second: number, parentSession?: string) => ({
  type: "session",
  version: 3,
  id,
  timestamp: at(second),
  cwd: "/srv",
  parentSession,
});

describe("what a fork inherited is in its parent's ledger only", () => {
  const forked = async (
    fork: (parent: SessionManager, path: string, directory: string) => SessionManager,
  ) => {
    const directory = await scratch();
    const parent = SessionManager.create("/srv", directory.path);
    parent.appendMessage({ role: "user", content: "begin", timestamp: 1 });
    parent.appendMessage(spent(1) as never);
    parent.appendUsage("title", "p", "m", spent(4).usage as never);
    await setTimeout(5); // pi tells time in milliseconds
    const path = parent.getSessionFile() as string;
    const child = fork(SessionManager.open(path), path, directory.path);
    child.appendMessage(spent(16) as never);
    child.appendUsage("title", "p", "m", spent(64).usage as never);
    return { directory, parent: { path, id: parent.getSessionId() }, child };
  };
  const forks = {
    "a fork of a whole session": (_: SessionManager, path: string, directory: string) =>
      SessionManager.forkFrom(path, "/srv", directory),
    "a branch that became a session": (parent: SessionManager) => {
      parent.createBranchedSession(parent.getLeafId() as string);
      return parent;
    },
  };

  test.each(Object.entries(forks))("%s, whichever is imported first", async (_, fork) => {
    const { directory, parent, child } = await forked(fork);
    await using _directory = directory;
    const paths = [parent.path, child.getSessionFile() as string];
    expect(await billed(paths, parent.id)).toBe(5);
    expect(await billed(paths, child.getSessionId())).toBe(80);
    expect(await billed(paths.toReversed(), child.getSessionId())).toBe(80);
  });

  test("where the parent's file is gone, whether or not the parent was imported", async () => {
    const { directory, parent, child } = await forked(forks["a fork of a whole session"]);
    await using _directory = directory;
    const fork = child.getSessionFile() as string;
    const tenant = randomUUID();
    await database.database.tenants.create({ slug: tenant });
    const repo = await database.database.repo(tenant);
    await importAll(repo.importer, [parent.path], {}, context);
    await rm(parent.path);
    expect(await billed([fork], child.getSessionId())).toBe(80);
    await importAll(repo.importer, [fork], {}, context);
    const session = await repo.open({ id: child.getSessionId() }, context);
    expect((await session.getStats(context)).usage.input).toBe(80);
    await session.close(context);
  });

  test("by its ids, whatever the clocks said", async () => {
    await using directory = await scratch();
    const inherited = [message("a", null, 50, 1), message("b", "a", 51, 2)];
    const parent = await directory.write("parent.jsonl", jsonl(header("parent", 40), ...inherited));
    const fork = await directory.write(
      "fork.jsonl",
      jsonl(header("fork", 30, parent), ...inherited, message("c", "b", 20, 4)),
    );
    expect(await billed([fork], "fork")).toBe(4);
  });

  test.each(["/home/mara/", "C:\\sessions\\"])("where the files were moved together: %s", async (before) => {
    await using directory = await scratch();
    const inherited = [message("a", null, 50, 1)];
    await directory.write("parent.jsonl", jsonl(header("parent", 40), ...inherited));
    const fork = await directory.write(
      "fork.jsonl",
      jsonl(header("moved", 30, `${before}parent.jsonl`), ...inherited, message("c", "a", 20, 4)),
    );
    expect(await billed([fork], "moved")).toBe(4);
  });

  test("a session that names itself as its parent is no fork of itself", async () => {
    await using directory = await scratch();
    const path = join(directory.path, "self.jsonl");
    await directory.write("self.jsonl", jsonl(header("self", 1, path), message("a", null, 2, 7)));
    expect(await billed([path], "self")).toBe(7);
  });
});

test("a row of the ledger tells who spent it and when: that of a usage record what the record says", async () => {
  await using directory = await scratch();
  const path = await directory.write(
    "s.jsonl",
    jsonl(header("told", 0), message("a", null, 1, 7), {
      type: "usage",
      id: "u",
      parentId: "a",
      timestamp: at(2),
      kind: "title",
      provider: "q",
      model: "small",
      usage: spent(3).usage,
      note: "named",
    }),
  );
  await billed([path], "told");
  const { rows } = await database.admin.query(
    `select usage_id, entry_id, provider, model, timestamp::float8, input::int, adjustment, details
     from "${database.schema}".usage_ledger where session_id = 'told' order by seq`,
  );
  const source = "v3-import";
  expect(rows).toEqual([
    {
      usage_id: "a:usage",
      entry_id: "a",
      provider: "p",
      model: "m",
      timestamp: Date.parse(at(1)),
      input: 7,
      adjustment: false,
      details: { source },
    },
    {
      usage_id: "u",
      entry_id: null,
      provider: "q",
      model: "small",
      timestamp: Date.parse(at(2)),
      input: 3,
      adjustment: false,
      details: { source, kind: "title", provider: "q", model: "small", note: "named" },
    },
  ]);
});
