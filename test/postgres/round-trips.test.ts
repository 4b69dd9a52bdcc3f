import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Branch,
  branchTip,
  BACKGROUND_CONTEXT as context,
  type Database,
  idleLaneState,
  laneConfig,
  laneState,
  openDatabase,
  type PgSession,
  type PgStorage,
  sessionName,
  value,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { openWire, type Wire } from "../support/wire.ts";
import { spend } from "../usage/spending.ts";

let at: TestDatabase;
let wire: Wire;
let database: Database;
let repo: PgSessionRepo;
let session: PgSession;
let storage: PgStorage;
let main: Branch;
let tip: string;

beforeAll(async () => {
  at = await openTestDatabase();
  wire = await openWire(at.connectionString);
  database = await openDatabase({ connectionString: wire.connectionString, schema: at.schema });
  repo = await database.repo("default");
  session = await repo.create({ id: "s", metadata: { user: "u" } }, context);
  main = await session.createBranch("main", null, context);
  tip = await main.appendCustomEntry("note", 1, context);
  await session.setValue(
    laneConfig("main"),
    { model: { provider: "p", modelId: "m" }, thinkingLevel: "off", activeToolNames: [] },
    context,
  );
  await session.setValue(laneState("main"), idleLaneState(), context);
  await spend(at.database, "default", [{ at: 0, session: "spent" }]);
  storage = await repo.createStorage({ id: "storage" }, context);
  await (await repo.create({ id: "closed" }, context)).close(context);
});
afterAll(async () => {
  await database.close();
  await wire[Symbol.asyncDispose]();
  await at[Symbol.asyncDispose]();
});

const message = { role: "user", content: "hello", timestamp: 1 } as const;

const OPERATIONS: [string, number, () => Promise<unknown>][] = [
  ["db.repo", 1, () => database.repo("default")],
  ["create", 1, () => repo.create({ id: "created", metadata: { user: "u" } }, context)],
  ["open", 1, () => repo.open({ id: "closed" }, context)],
  ["page", 1, () => repo.page({ sort: "modified", metadata: { user: "u" } }, context)],
  ["list", 1, () => repo.list(undefined, context)],
  ["summarize", 1, () => repo.summarize(undefined, context)],
  ["usage.report", 1, () => database.usage.report({ tenant: "default", by: ["day", "model"] }, context)],
  ["lineage", 1, () => repo.lineage({ id: "s" }, context)],
  ["setMetadata", 1, () => repo.setMetadata({ id: "s" }, { user: "u2" }, context)],
  ["appendMessage", 1, () => main.appendMessage(message, context)],
  ["setName", 1, () => session.setName("name", context)],
  ["createBranch", 2, () => session.createBranch("empty", null, context)],
  ["createBranch at an entry", 3, () => session.createBranch("other", tip, context)],
  ["getEntries", 1, () => session.getEntries([tip], context)],
  ["getValue", 1, () => session.getValue(sessionName, context)],
  ["scanValues", 1, () => session.scanValues(value("pi.branch.tip"), context)],
  ["scanBranch", 1, () => storage.scanBranch({ start: tip }, context).catch(() => {})],
  ["scanBranchStructure", 1, () => storage.scanBranchStructure({ start: tip }, context).catch(() => {})],
  ["findEntries of a branch", 1, () => main.findEntries({ limit: 50 }, context)],
  ["findEntries of a session", 1, () => session.findEntries({ limit: 50 }, context)],
  ["getStats", 1, () => session.getStats(context)],
  ["getChildren", 1, () => storage.getChildren(null, {}, context)],
  ["scanEntries", 1, () => storage.scanEntries({}, context)],
  ["scanUsage", 1, () => storage.scanUsage({}, context)],
  ["fork of the tree", 2, () => repo.fork({ id: "s" }, { scope: "tree", id: "f1" }, context)],
  [
    "fork before an entry of a branch",
    2,
    () =>
      repo.fork(
        { id: "s" },
        { scope: "branch", branch: "main", entryId: tip, position: "before", id: "f2" },
        context,
      ),
  ],
  [
    "fork of an entry that is not there",
    3,
    () => repo.fork({ id: "s" }, { scope: "branch", branch: "main", entryId: "no" }, context).catch(() => {}),
  ],
  ["delete", 1, () => repo.delete({ id: "storage" }, context)],
];

test.each(OPERATIONS)("%s takes %i", async (_what, expected, operation) => {
  expect(await wire.countTurns(operation)).toBe(expected);
});

test("the first append to a session that was just opened takes one", async () => {
  await session.close(context);
  const opened = await repo.open({ id: "s" }, context);
  const branch = await opened.branch("main", context);
  expect(await wire.countTurns(() => branch?.appendMessage(message, context) ?? Promise.resolve())).toBe(1);
  const read = async () => (await opened.getValue(branchTip("main"), context))?.value;
  expect(await read()).toBe(await branch?.getTipId(context));
  await opened.close(context);
});

test("ten appends take ten", async () => {
  const opened = await repo.open({ id: "s" }, context);
  const branch = await opened.branch("main", context);
  const turns = await wire.countTurns(async () => {
    for (let n = 0; n < 10; n++) await branch?.appendMessage(message, context);
  });
  expect(turns).toBe(10);
  await opened.close(context);
});
