import { randomUUID } from "node:crypto";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exportSession } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { setValue, value } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { conversation, converse, LISTS, NAMESPACES } from "./conversation.ts";
import { exportTo } from "./exported.ts";
import { inPi } from "./pi.ts";
import { scratch } from "./scratch.ts";
import { stateOf } from "./state.ts";

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

test("pi opens the file of any session with equal entries, values, lists, totals and metadata, and goes on with the same seq", async () => {
  const repo = await emptyRepo();
  await using directory = await scratch();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(conversation(), async (steps) => {
      const id = `s${number++}`;
      const session = await repo.create({ id, cwd: "/srv", parentSessionId: "parent" }, context);
      await converse(session, steps);
      const ours = await stateOf(session, PLACES);
      const { path, content, outcome } = await exportTo(join(directory.path, `${id}.jsonl`), repo, id, "v4");
      expect(outcome).toMatchObject({ sessionId: id, format: "v4", bytes: content.length });
      expect(Object.values(outcome.leftOut)).toEqual(Object.values(outcome.leftOut).map(() => 0));
      const mark = [setValue(value("mark"), 1)];
      const [theirs, next] = await inPi(path, async (pis) => [
        await stateOf(pis, PLACES),
        (await pis.mutate((mutator) => mutator.commit(mark, context), context)).firstSeq,
      ]);
      expect(theirs).toEqual(ours);
      const { firstSeq } = await session.mutate((mutator) => mutator.commit(mark, context), context);
      expect(next).toBe(firstSeq);
      await session.close(context);
    }),
    { numRuns: 60 },
  );
});

test("importing the file gives the same ledger, row by row", async () => {
  const [repo, other] = [await emptyRepo(), await emptyRepo()];
  await using directory = await scratch();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(conversation(), async (steps) => {
      const id = `s${number++}`;
      const session = await repo.create({ id, cwd: "/srv" }, context);
      await converse(session, steps);
      await session.close(context);
      const { path, content } = await exportTo(join(directory.path, `${id}.jsonl`), repo, id, "v4");
      const report = await importAll(other.importer, [path], {}, context);
      expect(report.files).toMatchObject([{ status: "imported" }]);
      const again = await exportTo(`${path}.again`, other, id, "v4");
      expect(again.content.toString()).toBe(content.toString());
      const rows = async (of: PgSessionRepo) => {
        const storage = await of.openStorage({ id }, context);
        return storage.scanUsage({}, context).finally(() => storage.close(context));
      };
      expect(await rows(other)).toEqual(await rows(repo));
    }),
    { numRuns: 40 },
  );
});

test("JSON stays as it is spelled", async () => {
  await using directory = await scratch();
  const repo = await emptyRepo();
  const lines = [
    '{"v":4,"kind":"header","id":"spelled","storageVersion":1,"createdAt":5,"cwd":"/srv","nextSeq":9}',
    '{"kind":"entry","id":"a","parentId":null,"type":"message","message":{"role":"user","content":"é\\u0000","timestamp":1},"seq":2,"timestamp":7}',
    '{"kind":"entry","id":"b","parentId":"a","type":"custom","customType":"empty","seq":3,"timestamp":8}',
    '{"kind":"usage","id":"u","usage":{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":1,"cost":{"input":0.1,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.1}},"entryId":"a","adjustment":true,"details":{"why":null},"seq":4}',
    '{"kind":"value","op":"set","seq":5,"namespace":"pi.branch.tip","key":"main","value":"b"}',
    '{"kind":"list","op":"append","seq":7,"namespace":"log","key":"","value":null}',
  ];
  const path = await directory.write("spelled.jsonl", `${lines.join("\n")}\n`);
  expect((await importAll(repo.importer, [path], {}, context)).imported).toBe(1);
  const { content } = await exportTo(`${path}.out`, repo, "spelled", "v4");
  expect(content.toString().trimEnd().split("\n")).toEqual(lines);
});

test("what is committed while a file is written is not in it", async () => {
  const repo = await emptyRepo();
  const session = await repo.create({ id: "busy", cwd: "/srv" }, context);
  const steps = fc.sample(conversation(undefined, 40), { seed: 3, numRuns: 1 })[0] ?? [];
  await converse(session, steps);
  const before = await stateOf(session, PLACES);
  await using directory = await scratch();
  const pieces: Buffer[] = [];
  for await (const piece of exportSession(repo.exporter, "busy", { format: "v4" }, context)) {
    // Overwrites, deletes and adds, between the header and the rest.
    if (pieces.push(piece) === 1) await converse(session, steps, "later");
  }
  const path = await directory.write("busy.jsonl", Buffer.concat(pieces));
  expect(await inPi(path, (pis) => stateOf(pis, PLACES))).toEqual(before);
  expect(await stateOf(session, PLACES)).not.toEqual(before);
  await session.close(context);
});
