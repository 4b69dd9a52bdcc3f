import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ImportOptions } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { type AgentMessage, buildSessionContext, laneConfig, type PgSession } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { conversation, converse, ONLY_V4 } from "./conversation.ts";
import { exportTo } from "./exported.ts";
import { scratch } from "./scratch.ts";
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
