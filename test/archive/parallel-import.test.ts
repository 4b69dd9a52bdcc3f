import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type FileOutcome, type ImportProgress, importArchives } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import type { SessionImporter } from "../../src/postgres/import-session.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { jsonl, type Scratch, scratch } from "./scratch.ts";

const timestamp = "2025-01-01T00:00:00.000Z";
const header = (id: string) => ({ type: "session", version: 3, id, timestamp, cwd: "/srv" });
const recordOf = (at: number) => ({ type: "message", timestamp, ...messageOf(at) });
const records = (count: number) => Array.from({ length: count }, (_, at) => recordOf(at));
const messageOf = (at: number) => ({
  id: `r${at}`,
  parentId: at === 0 ? null : `r${at - 1}`,
  message: { role: "user", content: `${at}` },
});
const formatFourHeader = (id: string) => ({
  v: 4,
  kind: "header",
  id,
  storageVersion: 1,
  createdAt: 1,
  cwd: "/srv",
});
const commitOf = (at: number) => [
  { kind: "entry", type: "message", ...messageOf(at), seq: at + 1, timestamp: at },
];

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

/** Runs `before` before each import. */
function importerWith(repo: PgSessionRepo, before: (sessionId: string) => unknown): SessionImporter {
  return {
    connections: repo.importer.connections,
    find: (id, context) => repo.importer.find(id, context),
    import: async (session, open, context) => {
      await before(session.id);
      return repo.importer.import(session, open, context);
    },
  };
}

describe("several files at a time", () => {
  test("are imported together, as many as there are jobs, and told in the order of their names", async () => {
    await using directory = await scratch();
    const names = ["0", "1", "2", "3", "4", "5", "6", "7"];
    // The first ones take the longest.
    for (const name of names)
      await directory.write(`${name}.jsonl`, jsonl(header(name), ...records(800 - 100 * Number(name))));
    const repo = await emptyRepo();
    let [running, most] = [0, 0];
    const three = Promise.withResolvers<void>();
    const importer: SessionImporter = {
      ...importerWith(repo, () => {}),
      import: async (session, open, context) => {
        running++;
        most = Math.max(most, running);
        if (running === 3) three.resolve();
        await three.promise; // would wait forever for a third one that does not come
        try {
          return await repo.importer.import(session, open, context);
        } finally {
          running--;
        }
      },
    };
    const { files } = await importAll(importer, directory.path, { jobs: 3 }, context);
    expect(files.map(({ path }) => basename(path, ".jsonl"))).toEqual(names);
    expect(files.every(({ status }) => status === "imported")).toBe(true);
    expect(most).toBe(3);
  });

  test("of one session: the first of them is stored, whichever is read faster", async () => {
    await using directory = await scratch();
    for (const [name, count] of Object.entries({ "1": 4_000, "2": 1, "3": 0 }))
      await directory.write(`${name}.jsonl`, jsonl(header("same"), ...records(count)));
    const repo = await emptyRepo();
    const { files } = await importAll(repo.importer, directory.path, { jobs: 3 }, context);
    expect(files).toMatchObject([
      { status: "imported", entries: 4_000 },
      { status: "failed", code: "session_exists" },
      { status: "failed", code: "session_exists" },
    ]);
  });

  test("in a dry run: the same outcomes", async () => {
    await using directory = await scratch();
    for (const [name, count] of Object.entries({ "1": 2_000, "2": 1, "3": 2_000 }))
      await directory.write(`${name}.jsonl`, jsonl(header("same"), ...records(count)));
    const repo = await emptyRepo();
    const { files } = await importAll(repo.importer, directory.path, { jobs: 3, dryRun: true }, context);
    expect(files).toMatchObject([
      { status: "would_import" },
      { status: "failed", code: "session_exists" },
      { status: "unchanged" },
    ]);
  });

  test("after an error that is no file's fault nothing more is begun, and the others are aborted", async () => {
    await using directory = await scratch();
    for (let at = 0; at < 20; at++) await directory.write(`${10 + at}.jsonl`, jsonl(header(`${at}`)));
    const repo = await emptyRepo();
    const begun: string[] = [];
    const first = Promise.withResolvers<void>();
    const all = Promise.withResolvers<void>();
    const importer: SessionImporter = {
      ...repo.importer,
      connections: 2,
      find: (id, context) => repo.importer.find(id, context),
      import: async (session, open, { abortSignal }) => {
        begun.push(session.id);
        if (begun.length === 20) all.resolve();
        if (session.id === "0") first.resolve();
        if (session.id === "3") {
          await first.promise;
          throw new Error("the network is gone");
        }
        // The first one takes until it is aborted, or the others are done.
        if (session.id === "0") await Promise.race([once(abortSignal as AbortSignal, "abort"), all.promise]);
        return repo.importer.import(session, open, context);
      },
    };
    const run = importAll(importer, directory.path, { jobs: 2 }, context);
    await expect(run).rejects.toThrow("the network is gone");
    expect(begun.toSorted()).toEqual(["0", "1", "2", "3"]); // two of them at once
  });

  test("whoever stops iterating ends the import, and what was told stays", async () => {
    await using directory = await scratch();
    for (let at = 0; at < 20; at++)
      await directory.write(`${10 + at}.jsonl`, jsonl(header(`${at}`), ...records(500)));
    const repo = await emptyRepo();
    let told: FileOutcome | undefined;
    for await (const file of importArchives(repo.importer, directory.path, { jobs: 2 }, context)) {
      told = file;
      break;
    }
    expect(told).toMatchObject({ status: "imported", sessionId: "0" });
    const stored = await repo.list(undefined, context);
    expect(stored.map(({ id }) => id)).toContain("0");
    expect(stored.length).toBeLessThan(10);
  });

  test.each([0, -1, 1.5, Number.NaN])("cannot be %d", async (jobs) => {
    const { importer } = await emptyRepo();
    await expect(importAll(importer, "/nowhere", { jobs }, context)).rejects.toMatchObject({
      code: "invalid_option",
      option: "jobs",
    });
  });
});

describe("a file that another process appends to", () => {
  test.each(["version 3", "format 4"])("is imported as of one moment (%s)", async (form) => {
    await using directory = await scratch();
    const line = (at: number) => (form === "format 4" ? commitOf(at) : recordOf(at));
    const first = form === "format 4" ? formatFourHeader("a") : header("a");
    const path = await directory.write(
      "a.jsonl",
      jsonl(first, ...Array.from({ length: 3_000 }, (_, at) => line(at))),
    );
    const repo = await emptyRepo();
    let appended = 0;
    const onProgress = () => appendFileSync(path, jsonl(line(3_000 + appended++)));
    const { files } = await importAll(repo.importer, path, { onProgress }, context);
    expect(appended).toBeGreaterThan(2);
    const session = await repo.open({ id: "a" }, context);
    const entries = await session.findEntries({ order: "asc" }, context);
    expect(files).toMatchObject([{ status: "imported", entries: entries.length }]);
    expect(entries.map(({ id }) => id)).toEqual(entries.map((_, at) => `r${at}`));
    expect(entries.length).toBeGreaterThanOrEqual(3_000);
  });
});

describe("files that are left out", () => {
  const older = Date.UTC(2025, 0, 1);
  const newer = Date.UTC(2025, 5, 1);

  async function tree(): Promise<Scratch> {
    const directory = await scratch();
    for (const [path, at] of Object.entries({
      "a/one.jsonl": older,
      "a/two.jsonl": newer,
      "b/deep/one.jsonl": newer,
      "b/three.jsonl": older,
      "three.jsonl": newer,
    })) {
      await utimes(await directory.write(path, jsonl(header(path))), at / 1000, at / 1000);
    }
    return directory;
  }

  test.each([
    [{ since: newer }, ["a/two.jsonl", "b/deep/one.jsonl", "three.jsonl"], 2],
    [{ since: newer + 1 }, [], 5],
    [{ include: ["one.jsonl"] }, ["a/one.jsonl", "b/deep/one.jsonl"], 3],
    [{ include: ["a/*", "b/**"] }, ["a/one.jsonl", "a/two.jsonl", "b/deep/one.jsonl", "b/three.jsonl"], 1],
    [{ include: ["b/*"], exclude: ["deep"] }, ["b/three.jsonl"], 3],
    [{ exclude: ["a/**", "three.jsonl"] }, ["b/deep/one.jsonl"], 2],
    [{ since: newer, include: ["one.jsonl"], exclude: ["a"] }, ["b/deep/one.jsonl"], 2],
  ])("by %o", async (options, expected, leftOut) => {
    await using directory = await tree();
    const { importer } = await emptyRepo();
    let counted: number | undefined;
    const onProgress = (now: ImportProgress) => {
      counted = now.leftOut;
    };
    const { files } = await importAll(importer, directory.path, { ...options, onProgress }, context);
    expect(files.map((file) => "sessionId" in file && file.sessionId)).toEqual(expected);
    expect(counted).toBe(leftOut);
  });

  test("may be files that were named: by their name", async () => {
    await using directory = await tree();
    const paths = ["a/one.jsonl", "three.jsonl"].map((path) => join(directory.path, path));
    const { importer } = await emptyRepo();
    const { files } = await importAll(importer, paths, { include: ["t*"] }, context);
    expect(files.map(({ path }) => basename(dirname(path)))).toEqual([basename(directory.path)]);
  });

  test.each([{ since: Number.NaN }, { include: [""] }, { exclude: "a" as never }])(
    "are not chosen by %o",
    async (options) => {
      const { importer } = await emptyRepo();
      await expect(importAll(importer, "/nowhere", options, context)).rejects.toMatchObject({
        code: "invalid_option",
        option: Object.keys(options)[0],
      });
    },
  );
});
