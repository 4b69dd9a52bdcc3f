import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import {
  insertEntry,
  insertUsage,
  type JsonValue,
  type PgSessionRepo,
  type Session,
  type UsageRow,
  type Write,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  at = await openTestDatabase();
  repo = await at.database.repo("default");
});
afterAll(async () => at[Symbol.asyncDispose]());

const NOTHING_SPENT = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const ONE_DOLLAR = {
  ...NOTHING_SPENT,
  input: 10,
  totalTokens: 10,
  cost: { input: 1, output: 0, cacheRead: 0, cacheWrite: 0, total: 1 },
};

function spent(id: string, row: Partial<UsageRow> = {}) {
  return insertUsage({ id, usage: ONE_DOLLAR, adjustment: false, ...row });
}

function answer(id: string, { provider = "acme", model = "large" } = {}) {
  const message = {
    role: "assistant" as const,
    content: [],
    api: "acme-api",
    provider,
    model,
    usage: ONE_DOLLAR,
    stopReason: "stop" as const,
    timestamp: 1,
  };
  return insertEntry({ id, parentId: null, type: "message", message });
}

function commit(session: Session, writes: Write[]) {
  return session.mutate((mutator) => mutator.commit(writes, context), context);
}

async function ledgerRow(session: Session, usageId: string) {
  const { rows } = await at.admin.query(
    `select provider, model, spent_at::float8, timestamp::float8, entry_type, role, root_session_id, cwd, dimensions
     from "${at.schema}".usage_ledger where session_id = $1 and usage_id = $2`,
    [session.metadata.id, usageId],
  );
  expect(rows).toHaveLength(1);
  return rows[0];
}

test("a row takes provider, model, time, type and role from the entry of its own commit, wherever that stands", async () => {
  const session = await repo.create({ id: "same-commit", cwd: "/work" }, context);
  const { timestamp } = await commit(session, [
    spent("before", { entryId: "a" }),
    answer("a"),
    spent("after", { entryId: "a" }),
  ]);
  for (const id of ["before", "after"]) {
    expect(await ledgerRow(session, id)).toEqual({
      provider: "acme",
      model: "large",
      spent_at: timestamp,
      timestamp,
      entry_type: "message",
      role: "assistant",
      root_session_id: "same-commit",
      cwd: "/work",
      dimensions: {},
    });
  }
});

test("a row takes the same from an entry of an earlier commit, and keeps the time of that", async () => {
  const session = await repo.create({ id: "earlier-commit" }, context);
  const { timestamp } = await commit(session, [answer("a", { model: "small" })]);
  await commit(session, [spent("u", { entryId: "a" })]);
  expect(await ledgerRow(session, "u")).toMatchObject({
    provider: "acme",
    model: "small",
    spent_at: timestamp,
    entry_type: "message",
    role: "assistant",
    cwd: null,
  });
});

test("what neither the row nor an entry says is unknown", async () => {
  const session = await repo.create({ id: "unknown" }, context);
  const { timestamp } = await commit(session, [spent("alone"), spent("missing", { entryId: "nowhere" })]);
  for (const id of ["alone", "missing"]) {
    expect(await ledgerRow(session, id)).toMatchObject({
      provider: "unknown",
      model: "unknown",
      spent_at: timestamp,
      entry_type: "unknown",
      role: "unknown",
    });
  }
});

test.each<[JsonValue, object]>([
  [
    { provider: "p", model: "m", timestamp: 1000 },
    { provider: "p", model: "m", spent_at: 1000 },
  ],
  [
    { provider: "p", modelId: "m" },
    { provider: "p", model: "m" },
  ],
  [{ model: "nul \0 and \ud800" }, { provider: "acme", model: "nul \ufffd and \ufffd" }],
  [{ provider: "é".repeat(300) }, { provider: "é".repeat(200), model: "large" }],
  [{ provider: "😀".repeat(300) }, { provider: "😀".repeat(200), model: "large" }],
  [
    { provider: 1, model: ["m"], timestamp: "yesterday" },
    { provider: "acme", model: "large" },
  ],
  [
    { provider: "", model: "" },
    { provider: "acme", model: "large" },
  ],
  [["provider"], { provider: "acme" }],
  ["provider", { provider: "acme" }],
  [null, { provider: "acme" }],
])("details %j have the first word where they say something", async (details, expected) => {
  const session = await repo.create({}, context);
  await commit(session, [answer("a"), spent("u", { entryId: "a", details })]);
  expect(await ledgerRow(session, "u")).toMatchObject(expected);
  await commit(session, [spent("later", { entryId: "a", details })]);
  expect(await ledgerRow(session, "later")).toMatchObject(expected);
});

test.each([
  ["microseconds", 1_795_000_000_000_000],
  ["years that reports cannot show", 253_402_300_800_000],
  ["times before the epoch", -1],
])("a time in %s is none: the entry's stands, else that of the commit", async (_, timestamp) => {
  const session = await repo.create({}, context);
  const alone = await commit(session, [spent("alone", { details: { timestamp } })]);
  expect(await ledgerRow(session, "alone")).toMatchObject({ spent_at: alone.timestamp });
  const entry = await commit(session, [answer("a")]);
  await commit(session, [spent("of entry", { entryId: "a", details: { timestamp } })]);
  expect(await ledgerRow(session, "of entry")).toMatchObject({ spent_at: entry.timestamp });
});

test("what a row says stays when the session, its metadata or the dimensions change", async () => {
  await at.database.usage.setDimensions("default", ["project", "team"]);
  expect(await at.database.usage.dimensions("default")).toEqual(["project", "team"]);
  const session = await repo.create(
    { id: "dimensions", metadata: { project: "apollo", team: 7, secret: "s" } },
    context,
  );
  await commit(session, [answer("a"), spent("u", { entryId: "a" })]);
  await repo.setMetadata(session.metadata, { project: "gemini" }, context);
  await commit(session, [spent("v", { entryId: "a" })]);
  await at.database.usage.setDimensions("default", []);
  await commit(session, [spent("w", { entryId: "a" })]);
  expect((await ledgerRow(session, "u")).dimensions).toEqual({ project: "apollo", team: "7" });
  expect((await ledgerRow(session, "v")).dimensions).toEqual({ project: "gemini" });
  expect((await ledgerRow(session, "w")).dimensions).toEqual({});
});

test("forks of forks spend for the session that began the family", async () => {
  const first = await repo.create({ id: "first" }, context);
  const second = await repo.fork(first.metadata, { id: "second", scope: "tree" }, context);
  const third = await repo.fork(second.metadata, { id: "third", scope: "tree" }, context);
  await commit(third, [spent("u")]);
  expect(await ledgerRow(third, "u")).toMatchObject({ root_session_id: "first" });
  const orphan = await repo.create({ id: "orphan", parentSessionId: "not stored" }, context);
  await commit(orphan, [spent("u")]);
  expect(await ledgerRow(orphan, "u")).toMatchObject({ root_session_id: "not stored" });
});

test.each([["", "x"], ["x", "x"], Array.from({ length: 17 }, (_, index) => `k${index}`), ["\0"], "x", [1]])(
  "the dimensions %j are refused",
  async (...keys) => {
    const given = keys.length === 1 && keys[0] === "x" ? "x" : keys;
    await expect(at.database.usage.setDimensions("default", given as never)).rejects.toMatchObject({
      code: "invalid_option",
      option: "dimensions",
    });
  },
);
