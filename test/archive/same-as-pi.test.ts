import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { JsonlSessionMetadata } from "@earendil-works/pi-agent-core/harness/session";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import type { Write } from "../../src/contract/write.ts";
import {
  appendList,
  deleteList,
  deleteValue,
  insertEntry,
  insertUsage,
  list,
  setValue,
  value,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { inPi, piRepo } from "./pi.ts";
import { scratch } from "./scratch.ts";
import { type Places, type State, sorted, stateOf, withIdsOf } from "./state.ts";
import { v3File } from "./v3-files.ts";

const SHARED_V3 = join(import.meta.dirname, "../../../shared/archives/v3/large-session.jsonl");
const EXAMPLES = join(import.meta.dirname, "../../examples/archives");

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

/** The state of the session after importing this one file. */
async function imported(path: string, places?: Places): Promise<State> {
  const repo = await emptyRepo();
  const report = await importAll(repo.importer, [path], {}, context);
  expect(report.files).toMatchObject([{ path, status: "imported" }]);
  const [metadata] = await repo.list(undefined, context);
  const session = await repo.open(metadata as { id: string }, context);
  try {
    return await stateOf(session, places);
  } finally {
    await session.close(context);
  }
}

async function expectSameAsPi(path: string, places?: Places): Promise<void> {
  const ours = await imported(path, places);
  const pis = withIdsOf(ours, await inPi(path, (session) => stateOf(session, places)));
  // Where a usage lacks its total, pi's sum is NaN, which JSON writes as null.
  if (pis.stats.usage.totalTokens === null) {
    const { input, output, cacheRead, cacheWrite } = ours.stats.usage;
    pis.stats.usage.totalTokens = input + output + cacheRead + cacheWrite;
  }
  expect({ ...ours, values: sorted(ours.values) }).toEqual(pis);
}

describe("an imported session is in the state that pi shows for its file", () => {
  test.skipIf(!existsSync(SHARED_V3))(
    "a real session of version 3 (skipped without ../shared/archives)",
    async () => {
      await expectSameAsPi(SHARED_V3);
      const ours = await imported(SHARED_V3);
      expect(ours.entries).toHaveLength(914);
      expect(ours.stats.messageCount).toBe(914);
      expect(ours.stats.usage.totalTokens).toBeGreaterThan(0);
    },
  );

  test("the sample archives", async () => {
    const files = (await readdir(EXAMPLES, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const file of files) await expectSameAsPi(join(EXAMPLES, file));
  });

  test("any tree of version 3, with labels, summaries, compactions and changes of model", async () => {
    await using directory = await scratch();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(v3File, async (content) => {
        await expectSameAsPi(await directory.write(`${number++}.jsonl`, content));
      }),
      { numRuns: 150 },
    );
  });

  test("any commits of format 4, written by pi", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commit, { maxLength: 15 }), fc.boolean(), async (commits, isTorn) => {
        await using directory = await scratch();
        const path = await writtenByPi(directory.path, commits);
        if (isTorn) await appendFile(path, '{"kind":"val');
        await expectSameAsPi(path, PLACES);
      }),
      { numRuns: 100 },
    );
  });

  test("a version 3 file that pi has upgraded to format 4 by writing to it", async () => {
    for (const content of fc.sample(v3File, { numRuns: 20, seed: 7 })) {
      await using directory = await scratch();
      const path = await directory.write("--srv--/old.jsonl", content);
      const repo = piRepo(directory.path);
      const [metadata] = await repo.list(undefined, context);
      const session = await repo.open(metadata as JsonlSessionMetadata, context);
      await session.setName("upgraded", context);
      await session.close(context);
      await expectSameAsPi(path);
    }
  });
});

const PLACES: Places = {
  namespaces: ["app", "app.%"],
  lists: [
    ["log", ""],
    ["log", "é😀"],
  ],
};

const address = fc.record({
  namespace: fc.constantFrom(...PLACES.namespaces),
  key: fc.constantFrom("", "a", "_%", "😀"),
});
const listAddress = fc.constantFrom(...PLACES.lists);
const json = fc.jsonValue({ maxDepth: 3 });

/** A function that makes a write, given the ids of the entries so far; it adds its own. */
type Plan = (ids: string[], fresh: () => string) => Write;

const plan: fc.Arbitrary<Plan> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.nat(), fc.string({ unit: "binary" }), fc.boolean()).map(entryPlan) },
  address.map(
    ({ namespace, key }): Plan =>
      () =>
        deleteValue(value(namespace, key)),
  ),
  fc.tuple(address, json).map(
    ([{ namespace, key }, to]): Plan =>
      () =>
        setValue(value<unknown>(namespace, key), to),
  ),
  listAddress.map(
    ([namespace, key]): Plan =>
      () =>
        deleteList(list(namespace, key)),
  ),
  fc.tuple(listAddress, json).map(
    ([[namespace, key], to]): Plan =>
      () =>
        appendList(list<unknown>(namespace, key), to),
  ),
  fc.tuple(fc.nat({ max: 9_999 }), fc.option(fc.nat(), { nil: undefined })).map(usagePlan),
);

const commit = fc.array(plan, { maxLength: 6 });

function entryPlan([parent, text, isCustom]: [number, string, boolean]): Plan {
  return (ids, fresh) => {
    const parentId = ids[parent % (ids.length + 1)] ?? null;
    const id = fresh();
    ids.push(id);
    return isCustom
      ? insertEntry({ type: "custom", id, parentId, customType: "note", data: { text } })
      : insertEntry({
          type: "message",
          id,
          parentId,
          message: { role: "user", content: text, timestamp: 1 },
        });
  };
}

function usagePlan([tokens, reasoning]: [number, number | undefined]): Plan {
  return (ids, fresh) =>
    insertUsage({
      id: fresh(),
      usage: {
        input: tokens,
        output: 1,
        cacheRead: 2,
        cacheWrite: 3,
        totalTokens: tokens + 6,
        ...(reasoning === undefined ? {} : { reasoning }),
        cost: { input: tokens / 7, output: 0.1, cacheRead: 0, cacheWrite: 5e-324, total: tokens / 7 + 0.1 },
      },
      ...(ids[0] === undefined ? {} : { entryId: ids[0] }),
      adjustment: tokens % 2 === 0,
    });
}

/** @returns the path of the file */
async function writtenByPi(root: string, commits: Plan[][]): Promise<string> {
  let clock = Date.UTC(2025, 5, 1);
  const repo = piRepo(root, () => clock++);
  const session = await repo.create(
    { cwd: "/srv/app", id: "written-by-pi", parentSessionId: "parent" },
    context,
  );
  const ids: string[] = [];
  let last = 0;
  for (const plans of commits) {
    const writes = plans.map((make) => make(ids, () => `id-${last++}`));
    await session.mutate((mutator) => mutator.commit(writes as never, context), context);
  }
  await session.close(context);
  return session.metadata.path;
}
