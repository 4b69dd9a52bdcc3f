import { createHash, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveName } from "../../src/archive/archive-name.ts";
import { exportFile } from "../../src/archive/export-file.ts";
import { inOrder } from "../../src/archive/in-order.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { type ExportFormat, exportSession, type ImportReport } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { writeCorpus } from "./corpus.ts";
import { type Scratch, scratch } from "./scratch.ts";

/** The suite takes a fifth of the corpus; `scripts/corpus` takes all of it: with forks, more than 2,000 files. */
const SHARE = process.env["CORPUS"] === "full" ? 1 : 0.2;
const SIZE = { v3: 810 * SHARE, v4: 540 * SHARE, sqlite: 210 * SHARE, shared: 100 * SHARE };
const SEED = 20_261_203;

let database: TestDatabase;
let directory: Scratch;
/** Of the tenant that has the corpus. */
let tenant: string;
let repo: PgSessionRepo;
let report: ImportReport;

beforeAll(async () => {
  database = await openTestDatabase();
  directory = await scratch();
  await writeCorpus(directory.path, SIZE, SEED);
  ({ tenant, repo } = await emptyRepo());
  report = await importAll(repo.importer, directory.path, {}, context);
}, 240_000);
afterAll(async () => {
  await directory[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

async function emptyRepo(): Promise<{ tenant: string; repo: PgSessionRepo }> {
  const slug = randomUUID();
  await database.database.tenants.create({ slug });
  return { tenant: slug, repo: await database.database.repo(slug) };
}

test("every session of a corpus that the real writers wrote is imported", () => {
  expect(report.files.filter(({ status }) => status !== "imported")).toEqual([]);
  const files = new Set(report.files.map(({ path }) => path));
  expect(files.size).toBeGreaterThanOrEqual(2_000 * SHARE);
  const formats = report.files.map((file) => ("format" in file ? file.format : 0));
  expect(formats.filter((format) => format === 3).length).toBeGreaterThan(1_000 * SHARE);
});

test("hashes in are hashes out", async () => {
  const files = report.files.flatMap((file) =>
    "format" in file && file.path.endsWith(".jsonl") ? [{ path: file.path, id: file.sessionId }] : [],
  );
  expect(files.length).toBeGreaterThan(1_700 * SHARE);
  await forEach(files, async ({ path, id }) => {
    const hash = createHash("sha256");
    const pieces = exportSession(repo.exporter, id, { format: "original" }, context);
    for await (const piece of pieces) hash.update(piece);
    expect(hash.digest("hex"), path).toBe(sha256(await readFile(path)));
  });
}, 240_000);

test.each(["v4", "v3"] as const)(
  "exported to %s and imported again, every session has the same state",
  async (format) => {
    const isIn = (file: { format?: number }) => format === "v4" || file.format === 3;
    const ids = new Set(
      report.files.flatMap((file) => ("format" in file && isIn(file) ? [file.sessionId] : [])),
    );
    const out = join(directory.path, `out-${format}`);
    await exportAll(ids, format, out);
    const other = await emptyRepo();
    const again = await importAll(other.repo.importer, out, {}, context);
    expect(again.files.filter(({ status }) => status !== "imported")).toEqual([]);
    expect(again.imported).toBe(ids.size);
    const [before, after] = [await digests(tenant, format), await digests(other.tenant, format)];
    const differing = [...ids].filter((id) => after.get(id) !== before.get(id));
    expect(differing).toEqual([]);
  },
  240_000,
);

async function exportAll(ids: ReadonlySet<string>, format: ExportFormat, out: string): Promise<void> {
  const sessions = (await repo.list(undefined, context)).filter(({ id }) => ids.has(id));
  const paths = new Map(sessions.map((session) => [session.id, join(out, archiveName(session))]));
  await forEach(sessions, async (session) => {
    const parentPath = paths.get(session.parentSessionId ?? "");
    const parent = parentPath === undefined ? {} : { parentPath };
    await exportFile(repo.exporter, session, { format, directory: out, force: false, ...parent }, context);
  });
}

/** Four at a time. */
async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for await (const _ of inOrder(items, work, { jobs: 4 }, context));
}

/**
 * Of all that a session holds, by its id. A version 3 file has usage that no message tells after the entries, so the
 * ledger's order changes, and a sum perhaps in its last digit.
 */
async function digests(slug: string, format: "v3" | "v4"): Promise<Map<string, string>> {
  const isOrdered = format === "v4";
  const schema = `"${database.schema}"`;
  const part = (table: string, columns: string, order = "seq") =>
    `(select md5(coalesce(string_agg(concat_ws('|', ${columns}), E'\\n' order by ${order}), '')) from ${schema}.${table} t
      where t.tenant_id = s.tenant_id and t.session_id = s.session_id)`;
  const { rows } = await database.admin.query(
    `select session_id, concat_ws(' ', next_seq, s.created_at, parent_session_id, message_count, total_tokens,
       ${isOrdered ? "total_cost" : "round(total_cost::numeric, 9)"},
       ${part("entries", "entry_id, parent_id, seq, run, timestamp, type, custom_type, role, provider, model, preview, payload::text")},
       ${part("scalar_values", "namespace, key, seq, value::text")},
       ${part("list_values", "namespace, key, seq, value::text")},
       ${part("usage_ledger", `usage_id, ${isOrdered ? "seq," : ""} entry_id, adjustment, usage::text, details::text`, isOrdered ? "seq" : "usage_id")}) as digest
     from ${schema}.sessions s join ${schema}.tenants using (tenant_id) where slug = $1`,
    [slug],
  );
  return new Map(rows.map(({ session_id: id, digest }) => [id, digest]));
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
