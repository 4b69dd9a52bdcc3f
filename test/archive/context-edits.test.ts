import { randomUUID } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { buildSessionContext, type SessionContextOptions } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { jsonl, scratch } from "./scratch.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

/** What a model gets at the end of the session of this file. */
async function contextOf(path: string, options?: SessionContextOptions): Promise<unknown[]> {
  const tenant = randomUUID();
  await database.database.tenants.create({ slug: tenant });
  const repo = await database.database.repo(tenant);
  const { files } = await importAll(repo.importer, [path], {}, context);
  expect(files).toMatchObject([{ status: "imported" }]);
  const [metadata] = await repo.list(undefined, context);
  const session = await repo.open(metadata as { id: string }, context);
  const entries = await (await session.branch("main", context))?.findEntries(
    { order: "oldestFirst" },
    context,
  );
  const messages = await buildSessionContext(entries ?? [], options, context);
  await session.close(context);
  return JSON.parse(JSON.stringify(messages));
}

type Step = [kind: (typeof KINDS)[number], choice: number, text: string];

const KINDS = [
  "user",
  "assistant",
  "toolResult",
  "hint",
  "edit",
  "edit",
  "omit",
  "compaction",
  "fork",
] as const;
const steps = fc.array(fc.tuple(fc.constantFrom(...KINDS), fc.nat(), fc.string({ maxLength: 5 })), {
  maxLength: 25,
});

/** Lets pi write a session. @returns what it would tell the model */
function writtenByPi(directory: string, plan: readonly Step[]): unknown[] {
  const session = SessionManager.create("/srv", directory);
  session.appendMessage({ role: "user", content: "begin", timestamp: 1 });
  for (const [kind, choice, text] of plan) take(session, kind, choice, text);
  const { messages } = session.buildSessionContext();
  return JSON.parse(JSON.stringify(messages));
}

function take(session: SessionManager, kind: Step[0], choice: number, text: string): void {
  const branch = session.getBranch();
  const chosen = branch[choice % branch.length] as (typeof branch)[number];
  const parts = [{ type: "text", text }] as const;
  switch (kind) {
    case "user":
      session.appendMessage({ role: "user", content: text, timestamp: 1 });
      return;
    case "assistant":
      session.appendMessage({ ...ASSISTANT, content: [...parts] } as never);
      return;
    case "toolResult":
      session.appendMessage({ ...TOOL_RESULT, content: [...parts] } as never);
      return;
    case "hint":
      session.appendCustomMessageEntry("hint", text, true);
      return;
    case "edit":
    case "omit": {
      const isMessage = chosen.type === "message" || chosen.type === "custom_message";
      if (isMessage) session.appendContextEdit(chosen.id, kind === "omit" ? null : { content: text });
      return;
    }
    case "compaction": {
      // What pi keeps of an older compaction is told differently here.
      const later = branch.slice(branch.findLastIndex(({ type }) => type === "compaction") + 1);
      const kept = later[choice % (later.length + 1)];
      session.appendCompaction(text, kept?.id ?? null, 7);
      return;
    }
    case "fork":
      session.branch(chosen.id);
  }
}

const ASSISTANT = {
  role: "assistant",
  api: "a",
  provider: "p",
  model: "m",
  stopReason: "stop",
  usage: {
    input: 1,
    output: 1,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 2,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  },
  timestamp: 1,
};
const TOOL_RESULT = { role: "toolResult", toolCallId: "t", toolName: "t", isError: false, timestamp: 1 };

test("a model gets what pi tells it, after edits, deletions, compactions and forks", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (plan) => {
      await using directory = await scratch();
      const expected = writtenByPi(directory.path, plan);
      const [file] = await readdir(directory.path);
      // pi goes on at the last record of the file.
      const opened = SessionManager.open(join(directory.path, file as string));
      const last = plan.at(-1)?.[0] === "fork" ? opened.buildSessionContext().messages : expected;
      expect(await contextOf(join(directory.path, file as string))).toEqual(JSON.parse(JSON.stringify(last)));
    }),
    { numRuns: 60 },
  );
});

const header = { type: "session", version: 3, id: "s", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" };
const timestamp = "2025-01-01T00:00:01.000Z";
const record = (id: string, parentId: string | null, more: object) => ({ id, parentId, timestamp, ...more });
const user = (content: string) => ({ type: "message", message: { role: "user", content } });
const edit = (targetId: string, replacement: unknown) => ({ type: "context_edit", targetId, replacement });

test("edits can be left out of account", async () => {
  await using directory = await scratch();
  const path = await directory.write(
    "s.jsonl",
    jsonl(
      header,
      record("a", null, user("as it was")),
      record("b", "a", edit("a", { content: "first" })),
      record("c", "b", edit("a", { content: "as it is" })),
    ),
  );
  expect(await contextOf(path)).toEqual([{ role: "user", content: "as it is" }]);
  expect(await contextOf(path, { contextEdits: false })).toEqual([{ role: "user", content: "as it was" }]);
});

test("text in the place of an answer's parts becomes a part", async () => {
  await using directory = await scratch();
  const path = await directory.write(
    "s.jsonl",
    jsonl(
      header,
      record("a", null, { type: "message", message: ASSISTANT }),
      record("b", "a", edit("a", { content: "shorter" })),
    ),
  );
  expect(await contextOf(path)).toEqual([{ ...ASSISTANT, content: [{ type: "text", text: "shorter" }] }]);
});

test("a compaction brings its system message, in the place of those that it keeps", async () => {
  await using directory = await scratch();
  const system = (content: string) => ({ role: "system", content, timestamp: 1 });
  const path = await directory.write(
    "s.jsonl",
    jsonl(
      header,
      record("a", null, { type: "message", message: system("old") }),
      record("b", "a", user("kept")),
      record("c", "b", {
        type: "compaction",
        summary: "short",
        firstKeptEntryId: "a",
        tokensBefore: 1,
        systemMessage: system("new"),
      }),
    ),
  );
  expect(await contextOf(path)).toMatchObject([
    { role: "system", content: "new" },
    { role: "compactionSummary", summary: "short" },
    { role: "user", content: "kept" },
  ]);
});

test("a compaction that names itself keeps nothing", async () => {
  await using directory = await scratch();
  const path = await directory.write(
    "s.jsonl",
    jsonl(
      header,
      record("a", null, user("gone")),
      record("b", "a", { type: "compaction", summary: "short", firstKeptEntryId: "b", tokensBefore: 1 }),
    ),
  );
  expect(await contextOf(path)).toMatchObject([{ role: "compactionSummary", summary: "short" }]);
});
