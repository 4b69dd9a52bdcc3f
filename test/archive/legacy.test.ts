import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { exportTo } from "./exported.ts";
import { inPi } from "./pi.ts";
import { jsonl, type Scratch, scratch } from "./scratch.ts";
import { type State, sorted, stateOf, withIdsOf } from "./state.ts";

const SHARED_V1 = join(import.meta.dirname, "../../../shared/archives/v1/large-session.jsonl");

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

async function imported(path: string, format: number): Promise<State> {
  const repo = await emptyRepo();
  const { files } = await importAll(repo.importer, [path], {}, context);
  expect(files).toMatchObject([{ path, status: "imported", format }]);
  const [metadata] = await repo.list(undefined, context);
  const session = await repo.open(metadata as { id: string }, context);
  try {
    return await stateOf(session);
  } finally {
    await session.close(context);
  }
}

/** Imported, and exported as `original`. */
async function expectSameBytes(path: string): Promise<void> {
  const repo = await emptyRepo();
  const { files } = await importAll(repo.importer, [path], {}, context);
  const { sessionId } = files[0] as { sessionId: string };
  const { content } = await exportTo(`${path}.out`, repo, sessionId, "original");
  expect(content.equals(await readFile(path))).toBe(true);
}

/** pi 1.6.0 rewrites the file as version 3, with new ids, and pi 0.87.1 imports that. */
async function expectSameAsPi(directory: Scratch, content: string, format: number): Promise<State> {
  const path = await directory.write("old.jsonl", content);
  const ours = await imported(path, format);
  const rewritten = await directory.write("rewritten.jsonl", content);
  SessionManager.open(rewritten);
  expect(await readFile(rewritten, "utf8")).toContain('"version":3');
  const pis = withIdsOf(ours, await inPi(rewritten, (session) => stateOf(session)));
  if (pis.stats.usage.totalTokens === null) {
    const { input, output, cacheRead, cacheWrite } = ours.stats.usage;
    pis.stats.usage.totalTokens = input + output + cacheRead + cacheWrite;
  }
  expect({ ...ours, values: sorted(ours.values) }).toEqual(pis);
  await expectSameBytes(path);
  await rm(path);
  return ours;
}

const timestamp = "2025-01-01T00:00:01.000Z";
const header = (version?: number) => ({
  type: "session",
  id: "old",
  timestamp: "2025-01-01T00:00:00.000Z",
  cwd: "/srv",
  provider: "anthropic",
  modelId: "m",
  thinkingLevel: "off",
  ...(version === undefined ? {} : { version }),
});

const cost = { input: 0.1, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.1 };
/** Files of this age say no total. */
const SPENT = { output: 1, cacheRead: 0, cacheWrite: 0, cost };

const text = fc.string({ maxLength: 10 });
const body = fc.oneof(
  text.map((content) => ({ type: "message", message: { role: "user", content, timestamp: 1 } })),
  text.map((content) => ({
    type: "message",
    message: { role: "hookMessage", customType: "hint", content, display: true, timestamp: 1 },
  })),
  fc.nat({ max: 99 }).map((input) => ({
    type: "message",
    message: { role: "assistant", content: [], provider: "p", model: "m", usage: { ...SPENT, input } },
  })),
  text.map((modelId) => ({ type: "model_change", provider: "p", modelId })),
  fc.constant({ type: "thinking_level_change", thinkingLevel: "high" }),
  text.map((data) => ({ type: "custom", customType: "note", data })),
  text.map((summary) => ({ type: "compaction", summary, tokensBefore: 7 })),
);

const v1File = fc
  .array(fc.tuple(body, fc.nat()), { maxLength: 30 })
  .map((steps) =>
    jsonl(
      header(),
      ...steps.map(([step, choice], number) =>
        step.type === "compaction" && number > 0
          ? { ...step, timestamp, firstKeptEntryIndex: 1 + (choice % number) }
          : step.type === "compaction"
            ? { type: "custom", customType: "first", timestamp }
            : { ...step, timestamp },
      ),
    ),
  );

const v2File = fc.array(fc.tuple(body, fc.nat()), { maxLength: 30 }).map((steps) =>
  jsonl(
    header(2),
    ...steps.map(([step, choice], number) => {
      const parent =
        number === 0
          ? null
          : `r${step.type === "compaction" ? number - 1 : number - 1 - (choice % Math.min(number, 3))}`;
      const place = { id: `r${number}`, parentId: parent, timestamp };
      if (step.type !== "compaction") return { ...step, ...place };
      return parent === null
        ? { type: "custom", customType: "first", ...place }
        : { ...step, ...place, firstKeptEntryId: parent };
    }),
  ),
);

describe("an old file becomes the session that pi makes of it", () => {
  test("any list of version 1", async () => {
    await using directory = await scratch();
    await fc.assert(
      fc.asyncProperty(v1File, async (content) => {
        await expectSameAsPi(directory, content, 1);
      }),
      { numRuns: 40 },
    );
  });

  test("any tree of version 2", async () => {
    await using directory = await scratch();
    await fc.assert(
      fc.asyncProperty(v2File, async (content) => {
        await expectSameAsPi(directory, content, 2);
      }),
      { numRuns: 40 },
    );
  });

  test.skipIf(!existsSync(SHARED_V1))(
    "a real session of version 1 (skipped without ../shared/archives)",
    async () => {
      await using directory = await scratch();
      const { entries } = await expectSameAsPi(directory, await readFile(SHARED_V1, "utf8"), 1);
      expect(entries).toHaveLength(914);
    },
  );
});

test("hook messages are custom messages now", async () => {
  await using directory = await scratch();
  const [record] = fc.sample(
    v2File.filter((content) => content.includes("hookMessage")),
    1,
  );
  const path = await directory.write("old.jsonl", record as string);
  const { entries } = await imported(path, 2);
  const roles = entries.map((entry) => (entry.type === "message" ? entry.message.role : entry.type));
  expect(roles).toContain("custom");
  expect(roles).not.toContain("hookMessage");
});

test("the ids of a version 1 file are the same each time, so it is one session and one tree", async () => {
  await using directory = await scratch();
  const content = jsonl(
    header(),
    ...["a", "b", "c"].map((content) => ({ type: "message", timestamp, message: { role: "user", content } })),
  );
  const paths = [await directory.write("1.jsonl", content), await directory.write("2.jsonl", content)];
  const repo = await emptyRepo();
  const { files } = await importAll(repo.importer, paths, {}, context);
  expect(files).toMatchObject([{ status: "imported" }, { status: "unchanged" }]);
  const again = await imported(paths[0] as string, 1);
  expect(again.entries.map(({ id }) => id)).toEqual([
    "8b8834cb-361b-5f3a-a831-5ef64d634572",
    "2131f2c5-5c97-519f-8b12-5e09378ddc13",
    "04a8f8b1-e8b3-58a5-bcf6-b3bcee43846e",
  ]);
});
