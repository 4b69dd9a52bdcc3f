import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exportSession } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { setValue, value } from "../../src/index.ts";
import { NoArchiveError } from "../../src/postgres/errors.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { conversation, converse, LISTS, NAMESPACES, type Step } from "./conversation.ts";
import { exportTo } from "./exported.ts";
import { inPi } from "./pi.ts";
import { jsonl, scratch } from "./scratch.ts";
import { stateOf } from "./state.ts";
import { v3File } from "./v3-files.ts";

const SHARED = join(import.meta.dirname, "../../../shared/archives");
const EXAMPLES = join(import.meta.dirname, "../../examples/archives");
const PLACES = { namespaces: NAMESPACES, lists: LISTS };
const V3 = { type: "session", version: 3, id: "v3", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" };
const V4 = { v: 4, kind: "header", id: "v4", storageVersion: 1, createdAt: 1_700_000_000_000, cwd: "/srv" };

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

async function original(repo: PgSessionRepo, sessionId: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of exportSession(repo.exporter, sessionId, { format: "original" }, context))
    pieces.push(piece);
  return Buffer.concat(pieces);
}

async function expectSameBytes(path: string, repo?: PgSessionRepo): Promise<void> {
  const tenant = repo ?? (await emptyRepo());
  const { files } = await importAll(tenant.importer, [path], {}, context);
  expect(files).toMatchObject([{ path, status: "imported" }]);
  const [file] = files as { sessionId: string }[];
  const bytes = await original(tenant, file?.sessionId as string);
  expect(bytes.equals(await readFile(path))).toBe(true);
}

describe("what was imported comes out again byte for byte", () => {
  test("the sample archives", async () => {
    const files = (await readdir(EXAMPLES, { recursive: true })).filter((name) => name.endsWith(".jsonl"));
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const file of files) await expectSameBytes(join(EXAMPLES, file));
  });

  test.skipIf(!existsSync(SHARED))("real sessions (skipped without ../shared/archives)", async () => {
    await expectSameBytes(join(SHARED, "v1/large-session.jsonl"));
    await expectSameBytes(join(SHARED, "v3/large-session.jsonl"));
  });

  test("any tree of version 3", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        v3File,
        fc.constantFrom("\n", "\r\n"),
        fc.boolean(),
        async (content, feed, hasMark) => {
          const named = content.replace(/"id":"[^"]*"/, `"id":"${number}"`).replaceAll("\n", feed);
          const path = await directory.write(`${number++}.jsonl`, hasMark ? `\ufeff${named}` : named);
          await expectSameBytes(path, repo);
        },
      ),
      { numRuns: 60 },
    );
  });

  const strange = [
    '{"type":"message","id":"a","parentId":null,"timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"x","n":1e400,"m":12345678901234567890.12345678901234567890,"n":-0.0,"role":"user"}}',
    ' { "message" : {"role":"\\u0075ser", "content" :"\u2028\\u0000\\ud800 \\/"} ,"timestamp":"2025-01-01T00:00:02.000Z", "parentId":"a","id":"b","type":"message" ,"extra":{"deep":[1.0]}} ',
    '{"type":"message","id":"c","parentId":"b","timestamp":"2025-01-01T00:00:03.000Z","message":1,"message":{"role":"user","content":"last"}}',
    '{"type":"message","id":"d","parentId":"c","timestamp":"2025-01-01T00:00:04.000Z","message":{"role":"user","content":"a"},"mess\\u0061ge":{"role":"user","content":"escaped"}}',
    '{"type":"custom","customType":"x","data":10e-1,"id":"e","parentId":"d","timestamp":"2025-01-01T00:00:05.000Z"}',
    '{"type":"custom","customType":"x","id":"f","parentId":"e","timestamp":"2025-01-01T00:00:05.000Z"}',
    '{"type":"openclaw.plan","id":"g","parentId":"f","timestamp":"2025-01-01T00:00:06.000Z","steps":[1.50]}',
    '{"type":"heartbeat","at":1}',
    '{"type":"message","id":"h","parentId":"g","timestamp":"2025-01-01T00:00:07.000Z","message":{"role":"user","content":"end"}}',
  ];

  test("numbers beyond double precision, repeated and escaped names, odd orders and spaces, unknown types", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    const path = await directory.write("strange.jsonl", `${jsonl(V3, ...strange)}{"torn`);
    await expectSameBytes(path, repo);
    const session = await repo.open({ id: "v3" }, context);
    const entries = await session.findEntries({ order: "asc" }, context);
    expect(entries.map(({ id }) => id).join("")).toBe("abcdefgh");
    const messages = entries.flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
    expect(messages.slice(2, 4)).toMatchObject([{ content: "last" }, { content: "escaped" }]);
    expect(entries[6]).toMatchObject({ customType: "pi.record/openclaw.plan", data: { steps: [1.5] } });
  });

  test("format 4 with several writes in a line, spelled strangely", async () => {
    await using directory = await scratch();
    const lines = [
      '[{"kind":"entry","type":"message","id":"a","parentId":null,"seq":1,"timestamp":1,"message":{"role":"user","content":1.0}},{"kind":"value","op":"set","seq":2,"namespace":"pi.branch.tip","key":"main","value":"a"}]',
      ' [ {"data":{"b":1e2,"a":1}, "kind":"entry","type":"custom","customType":"x","id":"b","parentId":"a","seq":3,"timestamp":1} , {"kind":"entry","type":"message","id":"c","parentId":"b","seq":4,"timestamp":1,"message":{"role":"user"},"terminate":true} ]',
      "[]",
      '{"kind":"entry","type":"message","id":"d","parentId":"c","seq":5,"timestamp":1,"message":{"role":"user","content":"\\u0000"}}',
    ];
    await expectSameBytes(await directory.write("v4.jsonl", `${jsonl(V4, ...lines)}[{"kind":`));
  });
});

describe("a format-4 session that went on since its import", () => {
  const grow = async (first: Step[], second: Step[], torn: string) => {
    await using directory = await scratch();
    const before = await emptyRepo();
    const written = await before.create({ id: "s", cwd: "/srv" }, context);
    await converse(written, first);
    await written.close(context);
    const { path, content } = await exportTo(join(directory.path, "s.jsonl"), before, "s", "v4");
    await appendFile(path, torn);
    const repo = await emptyRepo();
    await importAll(repo.importer, [path], {}, context);
    const session = await repo.open({ id: "s" }, context);
    await converse(session, second, "later");
    const ours = await stateOf(session, PLACES);
    const grown = await exportTo(join(directory.path, "grown.jsonl"), repo, "s", "original");
    const theirs = await inPi(grown.path, async (pis) => [
      await stateOf(pis, PLACES),
      (await pis.mutate((mutator) => mutator.commit([setValue(value("mark"), 1)], context), context))
        .firstSeq,
    ]);
    const { firstSeq } = await session.mutate(
      (mutator) => mutator.commit([setValue(value("mark"), 1)], context),
      context,
    );
    await session.close(context);
    return { original: content, grown: grown.content, ours: [ours, firstSeq], theirs };
  };

  test("is the same file with more at its end, which pi opens in the same state", async () => {
    await fc.assert(
      fc.asyncProperty(
        conversation(),
        conversation(),
        fc.constantFrom("", '{"kind":"val'),
        async (first, second, torn) => {
          const { original, grown, ours, theirs } = await grow(first, second, torn);
          expect(grown.subarray(0, original.length).equals(original)).toBe(true);
          expect(theirs[0]).toEqual(ours[0]);
          // A deletion at the very end of the session takes a seq that the file does not say.
          expect(theirs[1]).toBeLessThanOrEqual(ours[1] as number);
        },
      ),
      { numRuns: 30 },
    );
  });
});

test("a session that was not imported has no original", async () => {
  const repo = await emptyRepo();
  await repo.create({ id: "new" }, context);
  await expect(original(repo, "new")).rejects.toThrow(NoArchiveError);
});
