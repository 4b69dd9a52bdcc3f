import { randomUUID } from "node:crypto";
import { appendFile, chmod, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ImportProgress } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context, withAbortSignal } from "../../src/contract/context.ts";
import { DatabaseFullError } from "../../src/postgres/errors.ts";
import type { ImportStream, SessionImporter } from "../../src/postgres/import-session.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { jsonl, scratch } from "./scratch.ts";

const EXAMPLES = join(import.meta.dirname, "../../examples/archives");
const HEADER = { type: "session", version: 3, id: "a", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" };
const timestamp = "2025-01-01T00:00:01.000Z";
const record = (id: string, parentId: string | null, message: object = { role: "user", content: id }) => ({
  type: "message",
  id,
  parentId,
  timestamp,
  message,
});
const RECORDS = Array.from({ length: 5_000 }, (_, at) => record(`r${at}`, at === 0 ? null : `r${at - 1}`));
const spending = (usage: object) => ({ role: "assistant", content: [], provider: "p", model: "m", usage });

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

/** Number of rows of all tables of the schema that an import can write to. */
async function rowCounts(): Promise<unknown> {
  const tables = ["sessions", "entries", "scalar_values", "list_values", "usage_ledger", "archives"];
  const counts = tables.map((table) => `(select count(*) from "${database.schema}".${table}) as ${table}`);
  return (await database.admin.query(`select ${counts.join(", ")}`)).rows[0];
}

describe("importing again", () => {
  test("does nothing for the same files", async () => {
    const { importer } = await emptyRepo();
    const first = await importAll(importer, [EXAMPLES], {}, context);
    expect(first).toMatchObject({ imported: 4, failed: 0, skipped: 0 });
    expect(first.files.map(({ path }) => path)).toEqual(first.files.map(({ path }) => path).toSorted());
    const before = await rowCounts();
    const second = await importAll(importer, [EXAMPLES], {}, context);
    expect(second).toMatchObject({ imported: 0, unchanged: 4, failed: 0, entries: 0 });
    expect(await rowCounts()).toEqual(before);
  });

  test("at the same time stores each file once, and calls it unchanged the other times", async () => {
    const repo = await emptyRepo();
    const reports = await Promise.all(
      Array.from({ length: 4 }, () => importAll(repo.importer, [EXAMPLES], {}, context)),
    );
    const sum = (of: (report: (typeof reports)[number]) => number) =>
      reports.reduce((total, report) => total + of(report), 0);
    expect(sum(({ imported }) => imported)).toBe(4);
    expect(sum(({ unchanged }) => unchanged)).toBe(12);
    expect(sum(({ failed }) => failed)).toBe(0);
    expect(await repo.list(undefined, context)).toHaveLength(4);
  });

  test("refuses another file with the session's id, in a later run and in the same", async () => {
    await using directory = await scratch();
    const first = await directory.write("1.jsonl", jsonl(HEADER, record("r", null)));
    const copy = await directory.write("2.jsonl", jsonl(HEADER, record("r", null)));
    const other = await directory.write("3.jsonl", jsonl(HEADER, record("other", null)));
    const repo = await emptyRepo();
    const refusal = {
      status: "failed",
      code: "session_exists",
      reason: expect.stringContaining("delete it first"),
    };
    const outcomes = [{ status: "imported" }, { status: "unchanged" }, refusal];
    const report = await importAll(repo.importer, [first, copy, other], {}, context);
    expect(report.files).toMatchObject(outcomes);
    await appendFile(first, jsonl(record("later", "r")));
    expect((await importAll(repo.importer, [first], {}, context)).files).toMatchObject([refusal]);
    const session = await repo.open({ id: "a" }, context);
    expect(await session.findEntries(undefined, context)).toMatchObject([{ id: "r" }]);
  });

  test("refuses a file of a session that was created here", async () => {
    await using directory = await scratch();
    const repo = await emptyRepo();
    await repo.create({ id: "a" }, context);
    const path = await directory.write("a.jsonl", jsonl(HEADER));
    const { files } = await importAll(repo.importer, [path], {}, context);
    expect(files).toMatchObject([
      { code: "session_exists", reason: expect.stringContaining("not imported") },
    ]);
  });
});

describe("a dry run", () => {
  test("writes nothing and reports what an import reports", async () => {
    await using directory = await scratch();
    const paths = [
      EXAMPLES,
      await directory.write("1.jsonl", jsonl(HEADER, record("r", null))),
      await directory.write("2.jsonl", jsonl(HEADER, record("r", null))),
      await directory.write("3.jsonl", jsonl(HEADER, record("other", null))),
      await directory.write("4.jsonl", jsonl({ ...HEADER, id: "b" }, record("r", "missing"))),
    ];
    const { importer } = await emptyRepo();
    const before = await rowCounts();
    const dryRun = await importAll(importer, paths, { dryRun: true }, context);
    expect(await rowCounts()).toEqual(before);
    expect(dryRun).toMatchObject({ wouldImport: 5, unchanged: 1, failed: 2, imported: 0 });
    const real = await importAll(importer, paths, {}, context);
    const asImported = dryRun.files.map((file) =>
      file.status === "would_import" ? { ...file, status: "imported" } : file,
    );
    expect(real.files).toEqual(asImported);
  });
});

describe("the ledger of a version 3 session", () => {
  test("has a row for each record that spent something, with its entry", async () => {
    await using directory = await scratch();
    const cost = { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.30000000000000004 };
    const zeroCost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: zeroCost };
    const path = await directory.write(
      "a.jsonl",
      jsonl(
        HEADER,
        record("r1", null, spending({ input: 1, output: 2, cacheRead: 3, cacheWrite: 4, cost })),
        record("r1:usage", "r1", spending(zero)),
        record("r3", "r1:usage", spending({ ...zero, reasoning: 0 })),
        record("r4", "r3", spending({ ...zero, reasoning: 0 })),
        record("r5", "r4", spending({ input: 5 })),
        record("x".repeat(512), "r5", spending({ output: 6 })),
      ),
    );
    const repo = await emptyRepo();
    const { files } = await importAll(repo.importer, [path], {}, context);
    expect(files).toMatchObject([{ entries: 6, messages: 6, usageRows: 4 }]);
    const session = await repo.open({ id: "a" }, context);
    const { rows } = await database.admin.query(
      `select u.seq::int, u.usage_id, u.entry_id, e.model, u.total_tokens::int, u.cost_total::text, u.adjustment, u.details
       from "${database.schema}".usage_ledger u join "${database.schema}".sessions s using (tenant_id, session_id)
       join "${database.schema}".entries e using (tenant_id, session_id, entry_id)
       where session_id = 'a' and s.cwd = '/srv' and entry_id in ('r1', 'r3', 'r5', repeat('x', 512)) order by u.seq`,
    );
    const common = { model: "m", adjustment: false, details: { source: "v3-import" } };
    // Six entries and the tip of the branch come first.
    expect(rows).toEqual([
      {
        ...common,
        seq: 8,
        usage_id: "r1:usage:2",
        entry_id: "r1",
        total_tokens: 10,
        cost_total: "0.30000000000000004",
      },
      { ...common, seq: 9, usage_id: "r3:usage", entry_id: "r3", total_tokens: 0, cost_total: "0" },
      { ...common, seq: 10, usage_id: "r5:usage", entry_id: "r5", total_tokens: 5, cost_total: "0" },
      {
        ...common,
        seq: 11,
        usage_id: expect.stringMatching(/^usage:[0-9a-f]{64}$/),
        entry_id: "x".repeat(512),
        total_tokens: 6,
        cost_total: "0",
      },
    ]);
    expect((await session.getStats(context)).usage).toMatchObject({
      totalTokens: 21,
      reasoning: 0,
      input: 6,
    });
  });
});

describe("the parent of a version 3 session", () => {
  test("is the session of the file it names, or else the path", async () => {
    await using directory = await scratch();
    const parent = await directory.write("parent", jsonl({ ...HEADER, id: "the parent" }));
    const gone = join(directory.path, "gone.jsonl");
    const paths = [
      await directory.write("1.jsonl", jsonl({ ...HEADER, id: "known", parentSession: parent })),
      await directory.write("2.jsonl", jsonl({ ...HEADER, id: "lost", parentSession: gone })),
    ];
    const repo = await emptyRepo();
    await importAll(repo.importer, paths, {}, context);
    const known = await repo.open({ id: "known" }, context);
    expect(known.metadata.parentSessionId).toBe("the parent");
    expect(known.metadata.legacyParentSessionPath).toBeUndefined();
    const lost = await repo.open({ id: "lost" }, context);
    expect(lost.metadata.parentSessionId).toBeUndefined();
    expect(lost.metadata.legacyParentSessionPath).toBe(gone);
  });
});

describe("paths", () => {
  test("directories are searched by name, all the way down, for *.jsonl only", async () => {
    await using directory = await scratch();
    for (const name of ["b.jsonl", "a/z.jsonl", "a/deep/er/x.jsonl", "B.jsonl", "notes.txt"]) {
      await directory.write(name, jsonl({ ...HEADER, id: name }));
    }
    const { importer } = await emptyRepo();
    const { files } = await importAll(importer, [directory.path], {}, context);
    const found = files.map((file) => ("sessionId" in file ? file.sessionId : file));
    expect(found).toEqual(["B.jsonl", "a/deep/er/x.jsonl", "a/z.jsonl", "b.jsonl"]);
  });

  test("what is no session is skipped in a directory, and fails when it is named", async () => {
    await using directory = await scratch();
    const path = await directory.write("data.jsonl", '{"rows":1}\n');
    const { importer } = await emptyRepo();
    const found = await importAll(importer, [directory.path], {}, context);
    expect(found.files).toEqual([{ path, status: "skipped", reason: expect.stringMatching(/no header/) }]);
    const named = await importAll(importer, [path], {}, context);
    expect(named.files).toMatchObject([{ status: "failed", code: "not_an_archive", line: 1 }]);
  });

  test("links are followed, and circles of them end", async () => {
    await using directory = await scratch();
    const real = await directory.write("1/real.jsonl", jsonl(HEADER));
    await symlink(directory.path, join(directory.path, "1/circle"));
    await symlink("nowhere", join(directory.path, "2-dangling.jsonl"));
    await symlink("3-self.jsonl", join(directory.path, "3-self.jsonl"));
    await symlink(real, join(directory.path, "4-link.jsonl"));
    const { importer } = await emptyRepo();
    const { files } = await importAll(importer, [directory.path], {}, context);
    expect(files).toMatchObject([
      {
        path: join(directory.path, "1/circle"),
        status: "skipped",
        reason: expect.stringMatching(/same directory/),
      },
      { path: real, status: "imported" },
      { path: join(directory.path, "2-dangling.jsonl"), status: "failed", code: "path_not_found" },
      { path: join(directory.path, "3-self.jsonl"), status: "failed", code: "unreadable" },
      { path: join(directory.path, "4-link.jsonl"), status: "unchanged" },
    ]);
  });

  test("a path that is missing and a device fail and stop nothing", async () => {
    await using directory = await scratch();
    const good = await directory.write("good.jsonl", jsonl(HEADER));
    const { importer } = await emptyRepo();
    const { files } = await importAll(importer, ["/no/such", "/dev/null", good], {}, context);
    expect(files).toMatchObject([
      { path: "/no/such", status: "failed", code: "path_not_found" },
      { path: "/dev/null", status: "failed", code: "not_a_file" },
      { path: good, status: "imported" },
    ]);
  });

  test.skipIf(process.getuid?.() === 0)(
    "a directory without read permission fails and stops nothing (skipped for root, who may read everything)",
    async () => {
      await using directory = await scratch();
      const closed = dirname(await directory.write("closed/a.jsonl", jsonl(HEADER)));
      await directory.write("open.jsonl", jsonl(HEADER));
      await chmod(closed, 0);
      const { importer } = await emptyRepo();
      const { files } = await importAll(importer, [directory.path], {}, context);
      await chmod(closed, 0o700);
      expect(files).toMatchObject([
        { path: closed, status: "failed", code: "unreadable" },
        { status: "imported" },
      ]);
    },
  );
});

test.each([
  [{ sessions: 2 }, 2],
  [{ storedBytes: 3_000 }, undefined],
  [{ entryBytes: 10 }, 0],
])("what a tenant has no room for is reported, and the others are imported: %o", async (limits, expected) => {
  const slug = randomUUID();
  await database.owner.tenants.create({ slug });
  await database.owner.tenants.setLimits(slug, limits);
  const repo = await database.database.repo(slug);
  const { imported, failed, files } = await importAll(repo.importer, [EXAMPLES], {}, context);
  expect(imported).toBe(expected ?? imported);
  expect({ total: imported + failed, isAnyLeftOut: failed > 0 }).toEqual({ total: 4, isAnyLeftOut: true });
  for (const file of files) {
    if (file.status === "failed") expect(file).toMatchObject({ code: "tenant_limit" });
  }
  expect(await repo.list(undefined, context)).toHaveLength(imported);
});

describe("what is not a file's fault ends the run", () => {
  test("a server that is full", async () => {
    const repo = await emptyRepo();
    let imports = 0;
    const full: SessionImporter = {
      connections: 1,
      find: (id, context) => repo.importer.find(id, context),
      import: (session, open, context) =>
        imports++ === 0
          ? repo.importer.import(session, open, context)
          : Promise.reject(new DatabaseFullError("no space left on device")),
    };
    const run = importAll(full, [EXAMPLES], {}, context);
    await expect(run).rejects.toMatchObject({ code: "database_full" });
    expect(await repo.list(undefined, context)).toHaveLength(1);
  });

  test("a connection that is lost in the middle of a file has it imported anew, once", async () => {
    await using own = await openTestDatabase({ applicationName: "import-that-is-cut" });
    await using directory = await scratch();
    const records = Array.from({ length: 20_000 }, (_, at) =>
      record(`r${at}`, at === 0 ? null : `r${at - 1}`),
    );
    const path = await directory.write("a.jsonl", jsonl(HEADER, ...records));
    const repo = await own.database.repo("default");
    let isCut = false;
    const onProgress = ({ bytesDone, bytesTotal }: ImportProgress) => {
      if (isCut || bytesDone < bytesTotal / 2) return;
      isCut = true;
      void own.admin.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'import-that-is-cut'",
      );
    };
    expect(await importAll(repo.importer, [path], { onProgress }, context)).toMatchObject({
      imported: 1,
      entries: 20_000,
    });
    expect(isCut).toBe(true);
    const session = await repo.open({ id: "a" }, context);
    expect(await session.getStats(context)).toMatchObject({ messageCount: 20_000 });
  });

  test("tables that are missing", async () => {
    await using own = await openTestDatabase();
    const { importer } = await own.database.repo("default");
    await own.admin.query(`drop schema "${own.schema}" cascade`);
    const run = importAll(importer, [EXAMPLES], {}, context);
    await expect(run).rejects.toMatchObject({ code: "database_not_migrated" });
  });

  test("an abort", async () => {
    const abort = new AbortController();
    const { importer } = await emptyRepo();
    const aborted = withAbortSignal(abort.signal, context);
    const onProgress = ({ filesDone }: ImportProgress) => filesDone === 2 && abort.abort(new Error("enough"));
    const run = importAll(importer, [EXAMPLES], { onProgress: (now) => void onProgress(now) }, aborted);
    await expect(run).rejects.toThrow("enough");
  });
});

test.each([
  ["is shorter", jsonl(HEADER, record("other", null))],
  ["has another header", jsonl({ ...HEADER, cwd: "/etc" }, ...RECORDS)],
])("a file that %s when it is read after its header is refused", async (_, content) => {
  await using directory = await scratch();
  const path = await directory.write("a.jsonl", jsonl(HEADER, ...RECORDS));
  const repo = await emptyRepo();
  let isChanged = false;
  const changing: SessionImporter = {
    connections: 1,
    find: (id, context) => repo.importer.find(id, context),
    import: async (session, open, context) => {
      isChanged = true;
      await directory.write("a.jsonl", content);
      return repo.importer.import(session, open, context);
    },
  };
  const { files } = await importAll(changing, [path], {}, context);
  expect(isChanged).toBe(true);
  expect(files).toMatchObject([{ status: "failed", code: "file_changed" }]);
  expect(await repo.list(undefined, context)).toEqual([]);
});

test("what was spent is the same whether a file is read once, or twice for its size or for what it says of usage", async () => {
  await using directory = await scratch();
  const write = (id: string, calls: number, other: object = {}) =>
    directory.write(
      `${id}.jsonl`,
      jsonl(
        { ...HEADER, id },
        ...Array.from({ length: calls }, (_, at) =>
          record(
            `r${at}`,
            at === 0 ? null : `r${at - 1}`,
            spending({ output: at + 1, ...(at === 9 ? other : {}) }),
          ),
        ),
        {
          type: "usage",
          id: "u",
          parentId: "r0",
          timestamp,
          kind: "compaction",
          provider: "p",
          model: "n",
          usage: { input: 7 },
        },
      ),
    );
  await write("once", 100);
  await write("field", 100, { serviceTier: "flex" });
  await write("large", 9_000);
  const repo = await emptyRepo();
  expect(await importAll(repo.importer, directory.path, {}, context)).toMatchObject({ imported: 3 });
  // No other test has sessions of these names.
  const spent = async (id: string, calls: number) => {
    const { rows } = await database.admin.query(
      `select usage_id, entry_id, provider, model, spent_at, entry_type, role, input, output, total_tokens, details
       from "${database.schema}".usage_ledger
       where session_id = $1 and (output <= $2 or usage_id = 'u') order by seq`,
      [id, calls],
    );
    return rows;
  };
  const once = await spent("once", 100);
  expect(once).toHaveLength(101);
  expect(await spent("field", 100)).toEqual(once);
  expect(await spent("large", 100)).toEqual(once);
  expect(await spent("large", 9_000)).toHaveLength(9_001);
});

test("a file that changes between its two readings is refused", async () => {
  await using directory = await scratch();
  const content = (output: number) =>
    jsonl(
      HEADER,
      ...Array.from({ length: 12_000 }, (_, at) =>
        record(`r${at}`, at === 0 ? null : `r${at - 1}`, spending({ output })),
      ),
    );
  const path = await directory.write("a.jsonl", content(1));
  const repo = await emptyRepo();
  const changing: SessionImporter = {
    connections: 1,
    find: (id, context) => repo.importer.find(id, context),
    import: (session, open, context) => repo.importer.import(session, () => changed(open()), context),
  };
  const changed = (stream: ImportStream): ImportStream => ({
    finish: () => stream.finish(),
    chunks: (async function* () {
      let isFirst = true;
      for await (const chunk of stream.chunks) {
        if (isFirst) await directory.write("a.jsonl", content(2));
        isFirst = false;
        yield chunk;
      }
    })(),
  });
  const { files } = await importAll(changing, [path], {}, context);
  expect(files).toMatchObject([{ status: "failed", code: "file_changed" }]);
  expect(await repo.list(undefined, context)).toEqual([]);
});

test("progress grows to all bytes of all files, and names each outcome once", async () => {
  const { importer } = await emptyRepo();
  const seen: ImportProgress[] = [];
  const report = await importAll(importer, [EXAMPLES], { onProgress: (now) => seen.push(now) }, context);
  expect(seen.map(({ bytesDone }) => bytesDone)).toEqual(
    seen.map(({ bytesDone }) => bytesDone).toSorted((left, right) => left - right),
  );
  expect(seen.at(-1)).toMatchObject({
    filesDone: 4,
    filesTotal: 4,
    bytesDone: report.bytes,
    bytesTotal: report.bytes,
  });
  const outcomes = seen.flatMap(({ outcome }) => outcome ?? []);
  expect(outcomes).toHaveLength(4);
  expect(outcomes).toEqual(expect.arrayContaining(report.files)); // as they were finished
});
