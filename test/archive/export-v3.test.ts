import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ImportOptions } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import {
  type AgentMessage,
  branchTip,
  buildSessionContext,
  type Entry,
  emptyUsage,
  insertEntry,
  insertUsage,
  laneConfig,
  type PgSession,
  setValue,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { conversation, converse, ONLY_V4 } from "./conversation.ts";
import { exportTo } from "./exported.ts";
import { jsonl, scratch } from "./scratch.ts";
import { type State, sorted, stateOf } from "./state.ts";
import { v3File } from "./v3-files.ts";

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

async function imported(path: string, repo?: PgSessionRepo, options: ImportOptions = {}): Promise<PgSession> {
  const into = repo ?? (await emptyRepo());
  const report = await importAll(into.importer, [path], options, context);
  expect(report.files).toMatchObject([{ path, status: "imported" }]);
  const { sessionId: id } = report.files[0] as { sessionId: string };
  return into.open({ id }, context);
}

async function imports(path: string, options?: ImportOptions): Promise<State> {
  const session = await imported(path, undefined, options);
  return stateOf(session).finally(() => session.close(context));
}

/** What a model gets at the end of `main`. */
async function contextOf(session: PgSession): Promise<AgentMessage[]> {
  const path = await (await session.branch("main", context))?.findEntries({ order: "oldestFirst" }, context);
  return buildSessionContext(path ?? [], undefined, context);
}

/** pi says when a summary was made, and of what, in its own form; what was never finished it keeps. */
function comparable(messages: readonly unknown[]): unknown[] {
  return (JSON.parse(JSON.stringify(messages)) as Record<string, unknown>[])
    .filter(({ role, stopReason }) => role !== "assistant" || stopReason !== "aborted")
    .map((message) =>
      message["role"] === "branchSummary" && message["fromId"] === "root"
        ? { ...message, fromId: null }
        : message,
    );
}

describe("an imported version 3 session", () => {
  test("is in the same state after it was exported and imported again", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(v3File, async (content) => {
        const path = await directory.write(
          `${number++}.jsonl`,
          content.replaceAll('"generated"', `"s${number}"`),
        );
        const session = await imported(path, repo);
        const before = await stateOf(session);
        await session.close(context);
        const { path: again, outcome } = await exportTo(
          `${path}.again.jsonl`,
          repo,
          before.metadata["id"] as string,
          "v3",
        );
        expect(outcome.leftOut).toMatchObject({ values: 0, branches: 0, repeatedMessages: 0 });
        expect(await imports(again)).toEqual(before);
      }),
      { numRuns: 100 },
    );
  });
});

const inVersion3 = conversation((kind) => !ONLY_V4.has(kind));

describe("an imported version 3 session that grew", () => {
  test("is its file and then what pi would have appended, and has the same state when that is imported", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(v3File, inVersion3, async (content, steps) => {
        const id = `s${number++}`;
        const file = content.replaceAll('"generated"', `"${id}"`);
        const session = await imported(await directory.write(`${id}.jsonl`, file), repo);
        await converse(session, steps);
        const before = await stateOf(session);
        const ours = await contextOf(session);
        await session.close(context);
        const { path, content: grown } = await exportTo(
          `${directory.path}/${id}.grown`,
          repo,
          id,
          "original",
        );
        expect(grown.subarray(0, Buffer.byteLength(file)).toString()).toBe(file);
        // pi appends after a torn line too, and then skips it.
        expectSameInVersion3(await imports(path, { lenient: !file.endsWith("\n") }), before);
        const manager = SessionManager.open(path);
        manager.appendMessage({ role: "user", content: "and on", timestamp: 5 });
        const again = await imported(path, undefined, { lenient: !file.endsWith("\n") });
        const last = { role: "user", content: "and on", timestamp: 5 };
        expect(await contextOf(again)).toEqual([...ours, last]);
        await again.close(context);
      }),
      { numRuns: 40 },
    );
  });
});

const FILE = {
  header: { type: "session", version: 3, id: "file", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" },
  record: (id: string, parentId: string | null, fields: object) => ({
    ...{ type: "message", id, parentId, timestamp: "2025-01-01T00:00:01.000Z" },
    ...fields,
  }),
  says: (content: string) => ({ message: { role: "user", content, timestamp: 1 } }),
};

/** The records of a file, without its header. */
function recordsOf(content: Buffer): Record<string, unknown>[] {
  return content
    .toString()
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("records", () => {
  const { header, record, says } = FILE;

  test("take away a name and a label that the imported file has", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const file = jsonl(
      header,
      record("a", null, says("a")),
      record("b", "a", { type: "label", targetId: "a", label: "old" }),
      record("c", "b", { type: "session_info", name: "old" }),
    );
    const session = await imported(await directory.write("file.jsonl", file), repo);
    await session.setName(undefined, context);
    await session.setLabel("a", undefined, context);
    await session.close(context);
    const { path } = await exportTo(join(directory.path, "out.jsonl"), repo, "file", "original");
    const manager = SessionManager.open(path);
    expect([manager.getSessionName(), manager.getLabel("a"), manager.getLeafId()]).not.toContain("old");
    expect((await imports(path)).values.map(({ namespace }) => namespace)).toEqual(["pi.branch.tip"]);
  });

  test("of types that become custom entries are written as such records again, so pi applies context edits", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const file = jsonl(
      header,
      record("a", null, says("secret")),
      record("b", "a", { type: "context_edit", targetId: "a", replacement: { content: "public" } }),
      record("c", "b", { type: "acme.plan", steps: [1] }),
      record("d", "c", says("end")),
    );
    await (await imported(await directory.write("file.jsonl", file), repo)).close(context);
    const { path, content } = await exportTo(join(directory.path, "out.jsonl"), repo, "file", "v3");
    expect(recordsOf(content)).toEqual(
      file
        .trimEnd()
        .split("\n")
        .slice(1)
        .map((line) => JSON.parse(line)),
    );
    expect(SessionManager.open(path).buildSessionContext().messages).toMatchObject([
      { content: "public" },
      { content: "end" },
    ]);
  });

  test("stand before a compaction for what it retains from elsewhere, and count for later compactions", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const session = await repo.create({ id: "elsewhere", cwd: "/srv" }, context);
    const main = await session.createBranch("main", null, context);
    const [first, elsewhere] = ["first", "elsewhere"].map((content) => ({
      ...{ role: "user" as const, content, timestamp: 1 },
    })) as [AgentMessage, AgentMessage];
    await main.appendMessage(first, context);
    const compaction = { type: "compaction" as const, tokensBefore: 7, fromHook: false };
    const compact = async (parentId: string | null, summary: string, retainedTail: AgentMessage[]) => {
      const entry = { ...compaction, id: summary, parentId, summary, retainedTail };
      const writes = [insertEntry(entry), setValue(branchTip("main"), summary)];
      await session.mutate((mutator) => mutator.commit(writes, context), context);
      return (await session.getEntry(summary, context)) as Entry;
    };
    const tip = async () => (await session.getValue(branchTip("main"), context))?.value ?? null;
    const { timestamp } = await compact(await tip(), "one", [elsewhere]);
    const earlier: AgentMessage = { role: "compactionSummary", summary: "one", tokensBefore: 7, timestamp };
    await compact("one", "two", [first, earlier]);
    const ours = await contextOf(session);
    await session.close(context);
    const { path, outcome } = await exportTo(join(directory.path, "out.jsonl"), repo, "elsewhere", "v3");
    expect(outcome.leftOut.repeatedMessages).toBe(3);
    expect(comparable(SessionManager.open(path).buildSessionContext().messages)).toEqual(comparable(ours));
    const again = await imported(path);
    expect(await contextOf(again)).toEqual(ours);
    await again.close(context);
  });

  test("end on the branch that was moved last, where there is no main", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const session = await repo.create({ id: "branches", cwd: "/srv" }, context);
    const say = async (name: string, content: string) => {
      const branch =
        (await session.branch(name, context)) ?? (await session.createBranch(name, null, context));
      return branch.appendMessage({ role: "user", content, timestamp: 1 }, context);
    };
    await say("one", "first");
    await say("two", "second");
    const tip = await say("one", "third");
    await session.setValue(branchTip("one"), tip, context);
    await session.close(context);
    const { path, outcome } = await exportTo(join(directory.path, "out.jsonl"), repo, "branches", "v3");
    expect(outcome.leftOut.branches).toBe(2);
    const { messages } = SessionManager.open(path).buildSessionContext();
    expect(messages).toMatchObject([{ content: "first" }, { content: "third" }]);
  });

  test("of usage say what no message says: who spent it, when, and on what", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const spent = { ...emptyUsage(), input: 5, totalTokens: 5 };
    const usage = { type: "usage", kind: "cache_warm", provider: "p", model: "m", usage: spent, note: "n" };
    const file = jsonl(header, record("a", null, says("a")), record("u", "a", usage));
    const session = await imported(await directory.write("file.jsonl", file), repo);
    const row = { id: "fix", usage: { ...spent, input: -5 }, entryId: "a", adjustment: true };
    await session.mutate((mutator) => mutator.commit([insertUsage(row)], context), context);
    await session.close(context);
    const { content } = await exportTo(join(directory.path, "out.jsonl"), repo, "file", "v3");
    expect(recordsOf(content).slice(1)).toMatchObject([
      record("u", "a", usage),
      { type: "usage", id: "fix", parentId: "u", kind: "adjustment", usage: row.usage },
    ]);
  });
});

describe("a session that was never a file", () => {
  test("has the same tree, tip, name, labels, configuration and totals after it was exported and imported", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(inVersion3, async (steps) => {
        const id = `s${number++}`;
        const session = await repo.create({ id, cwd: "/srv" }, context);
        await converse(session, steps);
        const before = await stateOf(session);
        await session.close(context);
        const { path, outcome } = await exportTo(join(directory.path, `${id}.jsonl`), repo, id, "v3");
        expectSameInVersion3(await imports(path), before);
        const others = before.values.filter(
          ({ namespace, key }) => namespace === "pi.branch.tip" && key !== "main",
        );
        expect(outcome.leftOut.branches).toBe(others.length);
      }),
      { numRuns: 60 },
    );
  });

  test("gives pi 1.6.0 the same context, and pi goes on with it", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        conversation((kind) => !ONLY_V4.has(kind) || kind === "otherTail"),
        async (steps) => {
          const id = `s${number++}`;
          const session = await repo.create({ id, cwd: "/srv" }, context);
          await converse(session, steps);
          const hasMain = (await session.branch("main", context)) !== undefined;
          const ours = await contextOf(session);
          const settings = (await session.getValue(laneConfig("main"), context))?.value;
          await session.close(context);
          fc.pre(hasMain);
          const { path } = await exportTo(join(directory.path, `${id}.jsonl`), repo, id, "v3");
          const manager = SessionManager.open(path);
          const theirs = manager.buildSessionContext();
          expect(comparable(theirs.messages)).toEqual(comparable(ours));
          if (settings !== undefined) expect(theirs.thinkingLevel).toBe(settings.thinkingLevel);
          manager.appendMessage({ role: "user", content: "and on", timestamp: 5 });
          const grown = await imported(path);
          expect(comparable(await contextOf(grown))).toEqual(
            comparable([...ours, { role: "user", content: "and on", timestamp: 5 }]),
          );
          await grown.close(context);
        },
      ),
      { numRuns: 60 },
    );
  });
});

/** All that a version 3 file has room for. */
function expectSameInVersion3(after: State, before: State): void {
  expect(treeOf(after)).toEqual(treeOf(before));
  expect(after.stats.messageCount).toBe(before.stats.messageCount);
  expect(after.stats.usage.totalTokens).toBe(before.stats.usage.totalTokens);
  // pi has no session without this branch, and an empty label or name takes it away.
  const hasMain = before.values.some(({ namespace, key }) => namespace === "pi.branch.tip" && key === "main");
  expect(valuesOf(after).filter(({ namespace }) => hasMain || namespace !== "pi.branch.tip")).toEqual(
    valuesOf(before).filter(({ value }) => value !== ""),
  );
}

/** Without `seq`, which a file of version 3 does not have. */
function treeOf({ entries }: State): unknown {
  return entries.map(({ seq: _, ...entry }) => entry);
}

function valuesOf({ values }: State): { namespace: string; key: string; value: unknown }[] {
  return sorted(values)
    .filter(
      ({ namespace, key }) =>
        !["pi.branch.tip", "pi.lane.config", "pi.lane.state"].includes(namespace) || key === "main",
    )
    .map(({ seq: _, ...stored }) => stored);
}
