import { afterAll, beforeAll, expect, test } from "vitest";
import {
  branchTip,
  BACKGROUND_CONTEXT as context,
  idleLaneState,
  insertEntry,
  laneConfig,
  laneState,
  openDatabase,
  setValue,
  value,
} from "../../src/index.ts";
import type { PgSession, PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  at = await openTestDatabase();
  repo = await at.database.repo("default");
});
afterAll(() => at[Symbol.asyncDispose]());

const configuration = {
  model: { provider: "p", modelId: "m" },
  thinkingLevel: "off",
  activeToolNames: [],
} as const;

/** A lane `main` with three messages, and a branch `side` that leaves it after the second. */
async function createTree(): Promise<{ session: PgSession; ids: string[] }> {
  const session = await repo.create({ cwd: "/srv/app" }, context);
  const main = await session.createBranch("main", null, context);
  const ids: string[] = [];
  for (const text of ["one", "two", "three"]) {
    ids.push(await main.appendMessage({ role: "user", content: text, timestamp: 1 }, context));
  }
  const side = await session.createBranch("side", ids[1] ?? null, context);
  ids.push(await side.appendMessage({ role: "user", content: "side", timestamp: 1 }, context));
  for (const lane of ["main", "side"]) {
    await session.setValue(laneConfig(lane), { ...configuration, activeToolNames: [] }, context);
    await session.setValue(laneState(lane), { ...idleLaneState(), lastOperationId: "x" }, context);
  }
  return { session, ids };
}

test("forks taken while another process commits are never torn", async () => {
  const { session } = await createTree();
  const other = await openDatabase({ connectionString: at.connectionString, schema: at.schema });
  const writer = await (await other.repo("default")).open(session.metadata, context);
  let isDone = false;
  const writing = (async () => {
    for (let round = 0; !isDone; round++) {
      const id = `round-${round}`;
      const parentId = await (await writer.branch("main", context))?.getTipId(context);
      await writer.mutate(
        (mutator) =>
          mutator.commit(
            [
              setValue(value("left"), round),
              insertEntry({ id, parentId: parentId ?? null, type: "custom", customType: "round" }),
              setValue(branchTip("main"), id),
              setValue(value("right"), round),
            ],
            context,
          ),
        context,
      );
    }
  })();
  for (let round = 0; round < 15; round++) {
    const fork = await repo.fork(session.metadata, { scope: "tree" }, context);
    const [left, right] = [
      await fork.getValue(value("left"), context),
      await fork.getValue(value("right"), context),
    ];
    expect(left?.value).toEqual(right?.value);
    const newest = await fork.findEntry({ customType: "round" }, context);
    const tip = await (await fork.branch("main", context))?.getTipId(context);
    if (left !== undefined) {
      expect(newest?.id).toBe(`round-${left.value}`);
      expect(tip).toBe(newest?.id);
    }
    await fork.close(context);
  }
  isDone = true;
  await writing;
  await other.close();
  await session.close(context);
});

test("a fork keeps every sequence number and goes on from the source's next one", async () => {
  const { session } = await createTree();
  const fork = await repo.fork(session.metadata, { scope: "tree" }, context);
  const seqs = async (of: PgSession) =>
    (await of.findEntries({ order: "asc" }, context)).map(({ seq }) => seq);
  expect(await seqs(fork)).toEqual(await seqs(session));
  expect((await fork.getValue(branchTip("side"), context))?.seq).toBe(
    (await session.getValue(branchTip("side"), context))?.seq,
  );
  const next = (of: PgSession) =>
    of.mutate((mutator) => mutator.commit([setValue(value("x"), 1)], context), context);
  expect((await next(fork)).firstSeq).toBe((await next(session)).firstSeq);
  await Promise.all([fork.close(context), session.close(context)]);
});

test("a fork can be appended to on every branch, and scans see its own entries only", async () => {
  const { session, ids } = await createTree();
  const fork = await repo.fork(session.metadata, { scope: "branch", branch: "side" }, context);
  const side = await fork.branch("side", context);
  await side?.appendMessage({ role: "user", content: "after", timestamp: 1 }, context);
  const path = (await side?.findEntries({ order: "oldestFirst" }, context)) ?? [];
  expect(
    path.map((entry) => entry.type === "message" && entry.message.role === "user" && entry.message.content),
  ).toEqual(["one", "two", "side", "after"]);
  // A second branch at the copied fork point, where the source had its other child.
  const again = await fork.createBranch("again", ids[1] ?? null, context);
  await again.appendMessage({ role: "user", content: "again", timestamp: 1 }, context);
  expect(await again.findEntries(undefined, context)).toHaveLength(3);
  expect(await session.findEntries(undefined, context)).toHaveLength(4);
  await Promise.all([fork.close(context), session.close(context)]);
});

test("the picker shows of a fork what it holds", async () => {
  const { session } = await createTree();
  await session.setName("the name", context);
  const fork = await repo.fork(
    session.metadata,
    { scope: "branch", branch: "side", id: `fork-${session.metadata.id}` },
    context,
  );
  const summary = (await repo.summarize({ cwd: "/srv/app" }, context)).find(
    ({ metadata }) => metadata.id === fork.metadata.id,
  );
  expect(summary).toMatchObject({
    name: "the name",
    firstMessage: "one",
    metadata: { cwd: "/srv/app", parentSessionId: session.metadata.id },
    stats: { messageCount: 3 },
  });
  await Promise.all([fork.close(context), session.close(context)]);
});

test("a refused fork leaves no session behind and releases the id", async () => {
  const { session } = await createTree();
  const refused = { scope: "branch", branch: "main", entryId: "nowhere", id: "refused" } as const;
  await expect(repo.fork(session.metadata, refused, context)).rejects.toMatchObject({ code: "fork_refused" });
  await session.setValue(value("pi.future"), 1, context);
  await expect(repo.fork(session.metadata, { scope: "tree", id: "refused" }, context)).rejects.toMatchObject({
    code: "fork_refused",
  });
  await (await repo.create({ id: "refused" }, context)).close(context);
  await session.close(context);
});

test("deleting a session leaves its forks alone and takes everything of its own", async () => {
  const { session } = await createTree();
  const fork = await repo.fork(session.metadata, { scope: "tree" }, context);
  await session.close(context);
  await repo.delete(session.metadata, context);
  expect(await fork.findEntries(undefined, context)).toHaveLength(4);
  for (const table of ["entries", "scalar_values", "list_values", "usage_ledger", "sessions"]) {
    const { rows } = await at.admin.query(`select from "${at.schema}".${table} where session_id = $1`, [
      session.metadata.id,
    ]);
    expect(rows, table).toHaveLength(0);
  }
  await fork.close(context);
});
