/** What happens to files as they are found on disks, as docs/archives.md tells it. */
import { randomUUID } from "node:crypto";
import { appendFile, readFile, symlink, truncate } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FileOutcome } from "../../src/archive/index.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { rowsOf } from "../examples/pages.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { exportTo } from "./exported.ts";
import { jsonl, scratch } from "./scratch.ts";

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

const HEADER = { type: "session", version: 3, id: "s", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" };
const timestamp = "2025-01-01T00:00:01.000Z";
const user = (id: string, parentId: string | null, content: unknown = id) => ({
  type: "message",
  id,
  parentId,
  timestamp,
  message: { role: "user", content },
});
const other = (id: string, parentId: string | null, more: object) => ({ id, parentId, timestamp, ...more });

interface Wild {
  content: string | Buffer;
  /** As the table in docs/archives.md says it. */
  strict: string;
  lenient: string;
  /** What a lenient import makes of it, from the root to the tip. */
  path?: string;
}

const chain = (length: number) =>
  Array.from({ length }, (_, at) => user(`r${at}`, at === 0 ? null : `r${at - 1}`));
const deep = (levels: number) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

const WILD: Record<string, Wild> = {
  "CRLF at the ends of lines": {
    content: jsonl(HEADER, user("a", null), user("b", "a")).replaceAll("\n", "\r\n"),
    strict: "imported",
    lenient: "imported",
    path: "a b",
  },
  "a byte order mark": {
    content: `\ufeff${jsonl(HEADER, user("a", null))}`,
    strict: "imported",
    lenient: "imported",
    path: "a",
  },
  "U+2028 in strings": {
    content: jsonl(HEADER, user("a", null, "x\u2028y")),
    strict: "imported",
    lenient: "imported",
    path: "a",
  },
  "blank lines": {
    content: jsonl(HEADER, user("a", null), "", " ", user("b", "a")),
    strict: "refused: `invalid_json` in line 3",
    lenient: "without lines 3, 4",
    path: "a b",
  },
  "a torn last line": {
    content: `${jsonl(HEADER, user("a", null))}{"type":"mess`,
    strict: "imported, `tornBytes`: 13",
    lenient: "imported, `tornBytes`: 13",
    path: "a",
  },
  "a torn line followed by a whole one": {
    content: jsonl(
      HEADER,
      user("a", null),
      '{"type":"message","id":"b","parentId":"a","mess',
      user("c", "a"),
    ),
    strict: "refused: `invalid_json` in line 3",
    lenient: "without line 3",
    path: "a c",
  },
  "NULs of a crashed disk": {
    content: jsonl(HEADER, user("a", null), "\0".repeat(5000), user("b", "a")),
    strict: "refused: `invalid_json` in line 3",
    lenient: "without line 3",
    path: "a b",
  },
  "invalid JSON in the middle": {
    content: jsonl(HEADER, user("a", null), "{}{}", user("b", "a")),
    strict: "refused: `invalid_json` in line 3",
    lenient: "without line 3",
    path: "a b",
  },
  "a lost line that others follow": {
    content: jsonl(HEADER, user("a", null), "#", user("c", "b"), user("d", "c")),
    strict: "refused: `invalid_json` in line 3",
    lenient: "without line 3; line 4 (`missing_parent`) begins a tree of its own",
    path: "c d",
  },
  "invalid UTF-8": {
    content: Buffer.concat([
      Buffer.from(jsonl(HEADER, user("a", null))),
      Buffer.from([0x22, 0xc3, 0x28, 0x22, 0x0a]),
      Buffer.from(jsonl(user("b", "a"))),
    ]),
    strict: "refused: `invalid_utf8` in line 3",
    lenient: "without line 3",
    path: "a b",
  },
  "a header that is not first": {
    content: jsonl(user("z", null), HEADER, user("a", null)),
    strict: "refused: `not_an_archive` in line 1",
    lenient: "without line 1",
    path: "a",
  },
  "no header": {
    content: jsonl(user("a", null), user("b", "a")),
    strict: "refused: `not_an_archive` in line 1",
    lenient: "refused: `not_an_archive` in line 1",
  },
  "two headers": {
    content: jsonl(HEADER, user("a", null), { ...HEADER, id: "t" }, user("b", "a")),
    strict: "refused: `unsupported_record` in line 3",
    lenient: "without line 3",
    path: "a b",
  },
  "an id twice": {
    content: jsonl(HEADER, user("a", null), user("b", "a"), user("a", "b", "again"), user("c", "b")),
    strict: "refused: `duplicate_id` in line 4",
    lenient: "without line 4",
    path: "a b c",
  },
  "a parent that comes later": {
    content: jsonl(HEADER, user("a", "b"), user("b", null), user("c", "a")),
    strict: "refused: `missing_parent` in line 2",
    lenient: "line 2 (`missing_parent`) begins a tree of its own",
    path: "a c",
  },
  "a parent that never comes": {
    content: jsonl(HEADER, user("a", null), user("b", "x"), user("c", "b")),
    strict: "refused: `missing_parent` in line 3",
    lenient: "line 3 (`missing_parent`) begins a tree of its own",
    path: "b c",
  },
  "a cycle": {
    content: jsonl(HEADER, user("a", "b"), user("b", "a")),
    strict: "refused: `missing_parent` in line 2",
    lenient: "line 2 (`missing_parent`) begins a tree of its own",
    path: "a b",
  },
  "a label on a missing entry": {
    content: jsonl(
      HEADER,
      user("a", null),
      other("l", "a", { type: "label", targetId: "x", label: "here" }),
      user("b", "l"),
    ),
    strict: "refused: `missing_reference` in line 3",
    lenient: "without line 3",
    path: "a b",
  },
  "a summary of a missing branch": {
    content: jsonl(
      HEADER,
      user("a", null),
      other("b", "a", { type: "branch_summary", fromId: "x", summary: "short" }),
    ),
    strict: "imported; the summary keeps the id that is not there",
    lenient: "imported; the summary keeps the id that is not there",
    path: "a b",
  },
  "`firstKeptEntryId` off the branch": {
    content: jsonl(
      HEADER,
      user("a", null),
      user("b", "a"),
      other("c", "a", { type: "compaction", summary: "short", firstKeptEntryId: "b", tokensBefore: 1 }),
    ),
    strict: "refused: `missing_reference` in line 4",
    lenient: "line 4 (`missing_reference`) keeps no messages",
    path: "a c",
  },
  "usage that cannot be summed": {
    content: jsonl(
      HEADER,
      other("a", null, {
        type: "message",
        message: { role: "assistant", content: [], usage: { input: "1" } },
      }),
    ),
    strict: "refused: `invalid_usage` in line 2",
    lenient: "line 2 (`invalid_usage`) has no row in the ledger",
    path: "a",
  },
  "a record without a message": {
    content: jsonl(HEADER, user("a", null), other("b", "a", { type: "message" }), user("c", "b")),
    strict: "refused: `invalid_record` in line 3",
    lenient: "without line 3; what follows it follows its parent",
    path: "a c",
  },
  "JSON that is 20,000 levels deep": {
    content: jsonl(HEADER, user("a", null), user("b", "a", deep(20_000)), user("c", "b")),
    strict: "refused: `invalid_record` in line 3",
    lenient: "without line 3; what follows it follows its parent",
    path: "a c",
  },
  "a tree that is 20,000 records deep": {
    content: jsonl(HEADER, ...chain(20_000)),
    strict: "imported",
    lenient: "imported",
    path: chain(20_000)
      .map(({ id }) => id)
      .join(" "),
  },
  "an empty file": {
    content: "",
    strict: "refused: `not_an_archive` in line 1",
    lenient: "refused: `not_an_archive` in line 1",
  },
  "`.jsonl` that is something else": {
    content: jsonl({ event: "click", at: 1 }),
    strict: "refused: `not_an_archive` in line 1",
    lenient: "refused: `not_an_archive` in line 1",
  },
};

async function outcomeOf(repo: PgSessionRepo, path: string, lenient: boolean): Promise<FileOutcome> {
  const { files } = await importAll(repo.importer, [path], { lenient }, context);
  expect(files).toHaveLength(1);
  return files[0] as FileOutcome;
}

/** The codes and lines that the words of the table promise. */
function expectAsTold(outcome: FileOutcome, words: string): void {
  const refusal = /^refused: `(\w+)` in line (\d+)$/.exec(words);
  if (refusal !== null) {
    expect(outcome).toMatchObject({ status: "failed", code: refusal[1], line: Number(refusal[2]) });
    return;
  }
  const torn = /`tornBytes`: (\d+)/.exec(words)?.[1];
  const without = /^without lines? ([\d, ]+)/.exec(words)?.[1]?.split(", ").map(Number) ?? [];
  const changed = [...words.matchAll(/line (\d+) \(`(\w+)`\)/g)].map(([, line, code]) => [
    Number(line),
    code,
  ]);
  expect(outcome).toMatchObject({ status: "imported" });
  const { unusable = [], unusableCount = 0, tornBytes } = outcome as FileOutcome & { status: "imported" };
  expect(tornBytes).toBe(torn === undefined ? undefined : Number(torn));
  expect(unusable.map(({ line }) => line).toSorted()).toEqual(
    [...without, ...changed.map(([line]) => line as number)].toSorted(),
  );
  for (const [line, code] of changed)
    expect(unusable).toContainEqual(expect.objectContaining({ line, code }));
  expect(unusableCount).toBe(unusable.length);
}

async function pathOf(repo: PgSessionRepo): Promise<string> {
  const session = await repo.open({ id: "s" }, context);
  const branch = await session.branch("main", context);
  const entries = await branch?.findEntries({ order: "oldestFirst" }, context);
  await session.close(context);
  return (entries ?? []).map(({ id }) => id).join(" ");
}

describe.each(Object.entries(WILD))("%s", (_, { content, strict, lenient, path: expected }) => {
  const imported = async (isLenient: boolean, words: string) => {
    await using directory = await scratch();
    const path = await directory.write("s.jsonl", content);
    const repo = await emptyRepo();
    const outcome = await outcomeOf(repo, path, isLenient);
    expectAsTold(outcome, words);
    if (outcome.status !== "imported") {
      expect(await repo.list(undefined, context)).toEqual([]);
      return;
    }
    expect(await pathOf(repo)).toBe(expected);
    const exported = await exportTo(`${path}.again`, repo, "s", "original");
    expect(exported.content.equals(await readFile(path))).toBe(true);
    expect(await repo.verify(undefined, context)).toMatchObject({ findings: 0 });
  };
  test("strict", () => imported(false, strict));
  test("lenient", () => imported(true, lenient));
});

test("a line of 300 MB is imported, and comes out again", { timeout: 120_000 }, async () => {
  await using directory = await scratch();
  const [before, after] = JSON.stringify(user("a", null, "@")).split("@") as [string, string];
  const path = await directory.write("s.jsonl", `${jsonl(HEADER)}${before}`);
  for (let written = 0; written < 300; written += 10) await appendFile(path, Buffer.alloc(10_000_000, "\\n"));
  await appendFile(path, `${after}\n`);
  const repo = await emptyRepo();
  expect(await outcomeOf(repo, path, false)).toMatchObject({ status: "imported", entries: 1 });
  expect((await exportTo(`${path}.again`, repo, "s", "original")).content.equals(await readFile(path))).toBe(
    true,
  );
});

test("a line that is too long is refused without reading it to its end", async () => {
  await using directory = await scratch();
  const path = await directory.write("s.jsonl", jsonl(HEADER, user("a", null)));
  await truncate(path, 40_000_000_000); // takes no room on the disk
  const repo = await emptyRepo();
  for (const lenient of [false, true]) {
    const refused = { status: "failed", code: "line_too_long", line: 3 };
    expect(await outcomeOf(repo, path, lenient)).toMatchObject(refused);
  }
});

test("symbolic links in circles end", async () => {
  await using directory = await scratch();
  await directory.write("sessions/s.jsonl", jsonl(HEADER, user("a", null)));
  const sessions = join(directory.path, "sessions");
  await symlink(sessions, join(sessions, "again"));
  await symlink(join(sessions, "loop.jsonl"), join(sessions, "loop.jsonl"));
  const { files } = await importAll((await emptyRepo()).importer, [sessions], {}, context);
  expect(files.map(({ status }) => status).toSorted()).toEqual(["failed", "imported", "skipped"]);
});

test("one id in two files is one session: the second is refused, unless it has the same bytes", async () => {
  await using directory = await scratch();
  const path = await directory.write("1.jsonl", jsonl(HEADER, user("a", null)));
  const copy = await directory.write("2.jsonl", jsonl(HEADER, user("a", null)));
  const second = await directory.write("3.jsonl", jsonl(HEADER, user("b", null)));
  for (const lenient of [false, true]) {
    const repo = await emptyRepo();
    expect(await outcomeOf(repo, path, lenient)).toMatchObject({ status: "imported" });
    expect(await outcomeOf(repo, copy, lenient)).toMatchObject({ status: "unchanged" });
    const refused = { status: "failed", code: "session_exists" };
    expect(await outcomeOf(repo, second, lenient)).toMatchObject(refused);
  }
});

test("docs/archives.md tells what the tests of this page see", async () => {
  const rows = (await rowsOf("docs/archives.md")).filter(
    ({ heading }) => heading === "Files as they are found",
  );
  const told = new Map(rows.map(({ cells: [what = "", strict, lenient] }) => [what, [strict, lenient]]));
  for (const [what, { strict, lenient }] of Object.entries(WILD)) {
    expect([what, told.get(what)]).toEqual([what, [strict, lenient]]);
  }
});
