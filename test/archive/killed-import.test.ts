import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { openDatabase } from "../../src/index.ts";
import type { SessionImporter } from "../../src/postgres/import-session.ts";
import { Random } from "../chaos/random.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { openLossyProxy } from "../support/lossy-proxy.ts";
import { jsonl, type Scratch, scratch } from "./scratch.ts";

const EXAMPLES = join(import.meta.dirname, "../../examples/archives");
const SEED = 7;
const KILLS = 6;
const timestamp = "2025-01-01T00:00:00.000Z";

test("an import that is killed at any points ends, when it is run again, in the state of one that was not", {
  timeout: 240_000,
}, async () => {
  await using directory = await scratch();
  const paths = [EXAMPLES, await writeFiles(directory)];
  await using whole = await openTestDatabase();
  await using killed = await openTestDatabase();
  const random = new Random(SEED, "killed import");
  const { reports } = await importIn(whole, Number.POSITIVE_INFINITY, paths);
  for (let kill = 0; kill < KILLS; kill++) {
    // What is stored already is reported less often.
    const { signal } = await importIn(killed, 1 + random.below(reports / 2), paths);
    expect(signal).toBe("SIGKILL");
    await assertWholeSessions(killed);
  }
  const { importer } = await killed.database.repo("default");
  expect(await importAll(importer, paths, {}, context)).toMatchObject({ failed: 0 });
  expect(await rowsOf(killed)).toEqual(await rowsOf(whole));
});

/** Of several sizes, each of several branches. */
async function writeFiles(directory: Scratch): Promise<string> {
  for (const [file, records] of [3_000, 10, 0, 1_500, 300, 2_000, 40].entries()) {
    const header = { type: "session", version: 3, id: `file-${file}`, timestamp, cwd: "/srv" };
    const lines = Array.from({ length: records }, (_, at) => ({
      type: "message",
      id: `r${at}`,
      parentId: at === 0 ? null : `r${at % 7 === 0 ? Math.trunc(at / 2) : at - 1}`,
      timestamp,
      message:
        at % 2 === 0
          ? { role: "user", content: "why? ".repeat(60) }
          : { role: "assistant", content: [], provider: "p", model: "m", usage: { input: at, output: 1 } },
    }));
    await directory.write(`${file}.jsonl`, jsonl(header, ...lines));
  }
  return directory.path;
}

async function importIn({ connectionString, schema }: TestDatabase, killAt: number, paths: string[]) {
  const script = join(import.meta.dirname, "killed-import.ts");
  const options = ["--experimental-strip-types", "--no-warnings", script];
  const args = [...options, connectionString, schema, String(killAt), ...paths];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [output, [, signal]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  return { reports: Number(output), signal: signal as NodeJS.Signals | null };
}

/** What is stored of a session is all of it. */
async function assertWholeSessions({ database }: TestDatabase): Promise<void> {
  const repo = await database.repo("default");
  const findings: unknown[] = [];
  await repo.verify({ onFinding: (finding) => void findings.push(finding) }, context);
  expect(findings).toEqual([]);
}

const TABLES = [
  "sessions",
  "entries",
  "scalar_values",
  "list_values",
  "usage_ledger",
  "archives",
  "archive_journal",
];

/** All rows, but for when and in which transaction they were written. */
async function rowsOf({ admin, schema }: TestDatabase): Promise<unknown> {
  const rows: Record<string, unknown[]> = {};
  for (const table of TABLES) {
    const result = await admin.query(
      `select to_jsonb(t) - array['imported_at', 'last_commit', 'position'] as row from "${schema}".${table} as t
       order by md5((to_jsonb(t) - array['imported_at', 'last_commit', 'position'])::text)`,
    );
    rows[table] = result.rows;
  }
  return rows;
}

test("a file whose last answer gets lost counts as imported, and is stored once", async () => {
  await using directory = await scratch();
  const header = { type: "session", version: 3, id: "lost", timestamp, cwd: "/srv" };
  const message = { role: "user", content: "why?" };
  await directory.write(
    "lost.jsonl",
    jsonl(header, { type: "message", id: "r", parentId: null, timestamp, message }),
  );
  await using at = await openTestDatabase();
  await using proxy = await openLossyProxy(at.connectionString);
  const database = await openDatabase({ connectionString: proxy.connectionString, schema: at.schema });
  const { importer } = await database.repo("default");
  const lossy: SessionImporter = {
    connections: importer.connections,
    find: (id, context) => importer.find(id, context),
    import: (session, open, context) => {
      proxy.loseNextCommit().then(() => proxy.release());
      return importer.import(session, open, context);
    },
  };
  expect(await importAll(lossy, directory.path, {}, context)).toMatchObject({
    imported: 1,
    failed: 0,
    files: [{ status: "imported", entries: 1 }],
  });
  expect(await importAll(importer, directory.path, {}, context)).toMatchObject({ unchanged: 1 });
  await database.close();
});
