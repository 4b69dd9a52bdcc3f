import { truncate } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { inPi } from "./pi.ts";
import { jsonl, scratch } from "./scratch.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

interface Broken {
  content: string | Uint8Array;
  code: string;
  line: number;
  reason: RegExp;
  /** Not told by pi, or not by its importer. */
  piOpensIt?: true;
}

const SECRET = "the words of the user";
const V3 = { type: "session", version: 3, id: "v3", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/srv" };
const V4 = { v: 4, kind: "header", id: "v4", storageVersion: 1, createdAt: 1_700_000_000_000, cwd: "/srv" };
const timestamp = "2025-01-01T00:00:01.000Z";
const message = { role: "user", content: SECRET, timestamp: 1 };
const record = (id: string, parentId: string | null, more = {}) => ({
  type: "message",
  id,
  parentId,
  timestamp,
  message,
  ...more,
});
const entry = (seq: number, id: string, parentId: string | null, more = {}) => ({
  kind: "entry",
  type: "message",
  id,
  parentId,
  seq,
  timestamp: 1_700_000_000_000,
  message,
  ...more,
});
const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const usage = (seq: number, id: string, more = {}) => ({
  kind: "usage",
  id,
  seq,
  usage: { ...zero, cost },
  adjustment: false,
  ...more,
});

const BROKEN: Record<string, Broken> = {
  "an empty file": { content: "", code: "not_an_archive", line: 1, reason: /empty/ },
  "no header": { content: jsonl(record("a", null)), code: "not_an_archive", line: 1, reason: /no header/ },
  "a binary file": {
    content: Uint8Array.from({ length: 3_000_000 }, (_, at) => (at * 31) % 251),
    code: "not_an_archive",
    line: 1,
    reason: /header/,
  },
  "a first line of 2 MB": {
    content: `{"type":"session","x":"${"x".repeat(2_000_000)}`,
    code: "not_an_archive",
    line: 1,
    reason: /too long/,
  },
  "a header without line feed": {
    content: JSON.stringify(V3),
    code: "invalid_header",
    line: 1,
    reason: /cut off/,
  },
  "a header with a wrong date": {
    content: jsonl({ ...V3, timestamp: "soon" }),
    code: "invalid_header",
    line: 1,
    reason: /timestamp/,
  },
  "version 5": {
    content: jsonl({ ...V3, version: 5 }),
    code: "unsupported_version",
    line: 1,
    reason: /upgrade/,
  },
  "a newer storage version": {
    content: jsonl({ ...V4, storageVersion: 2 }),
    code: "unsupported_version",
    line: 1,
    reason: /storage version 2/,
  },
  "NUL in the session id": {
    content: jsonl({ ...V3, id: "a\0b" }),
    code: "invalid_text",
    line: 1,
    reason: /session id contains a NUL/,
    piOpensIt: true,
  },
  "v3: a cut line in the middle": {
    content: jsonl(
      V3,
      record("a", null),
      '{"type":"message","id":"b","message":"the words',
      record("c", "a"),
    ),
    code: "invalid_json",
    line: 3,
    reason: /not valid JSON/,
  },
  "v3: a blank line": {
    content: jsonl(V3, record("a", null), "", record("b", "a")),
    code: "invalid_json",
    line: 3,
    reason: /blank/,
  },
  "v3: NULs of a crashed disk": {
    content: jsonl(V3, record("a", null), "\0".repeat(4096)),
    code: "invalid_json",
    line: 3,
    reason: /not valid JSON/,
  },
  "v3: invalid UTF-8": {
    content: Buffer.concat([
      Buffer.from(jsonl(V3, record("a", null)).slice(0, -4)),
      Buffer.from([0x22, 0xc3, 0x28, 0x22, 0x7d, 0x7d, 0x0a]),
    ]),
    code: "invalid_utf8",
    line: 2,
    reason: /UTF-8/,
  },
  "v3: a parent that never comes": {
    content: jsonl(V3, record("a", null), record("b", "missing")),
    code: "missing_parent",
    line: 3,
    reason: /"missing"/,
  },
  "v3: a parent that comes later": {
    content: jsonl(V3, record("a", "b"), record("b", null)),
    code: "missing_parent",
    line: 2,
    reason: /"b"/,
  },
  "v3: its own parent": {
    content: jsonl(V3, record("a", "a")),
    code: "missing_parent",
    line: 2,
    reason: /"a"/,
  },
  "v3: an id twice": {
    content: jsonl(V3, record("a", null), record("b", "a"), record("a", "b")),
    code: "duplicate_id",
    line: 4,
    reason: /"a"/,
  },
  "v3: NUL in an id": {
    content: jsonl(V3, record("a\0", null)),
    code: "invalid_text",
    line: 2,
    reason: /entry id contains a NUL/,
    piOpensIt: true,
  },
  "v3: a lone surrogate in an id": {
    content: jsonl(V3, '{"type":"model_change","id":"\\ud800","parentId":null}', record("a", "\\ud800")),
    code: "missing_parent",
    line: 3,
    reason: /no record before/,
  },
  "v3: an id of 600 bytes": {
    content: jsonl(V3, record("x".repeat(600), null)),
    code: "invalid_text",
    line: 2,
    reason: /600 bytes/,
    piOpensIt: true,
  },
  "v3: an id that is a number": {
    content: jsonl(V3, { ...record("a", null), id: 7 }),
    code: "invalid_record",
    line: 2,
    reason: /`id`/,
    piOpensIt: true,
  },
  "v3: no message": {
    content: jsonl(V3, { ...record("a", null), message: undefined }),
    code: "invalid_record",
    line: 2,
    reason: /`message`/,
  },
  "v3: a timestamp that is no date": {
    content: jsonl(V3, record("a", null, { timestamp: "yesterday" })),
    code: "invalid_record",
    line: 2,
    reason: /`timestamp`/,
    piOpensIt: true,
  },
  "v3: a usage record without usage": {
    content: jsonl(V3, { type: "usage", id: "a", parentId: null, timestamp }),
    code: "invalid_usage",
    line: 2,
    reason: /no `usage`/,
  },
  "v3: a context edit of nothing": {
    content: jsonl(V3, { type: "context_edit", id: "a", parentId: null, timestamp, replacement: null }),
    code: "invalid_record",
    line: 2,
    reason: /`targetId`/,
  },
  "v3: nested deeply": {
    content: jsonl(
      V3,
      `{"type":"custom","customType":"x","id":"a","parentId":null,"timestamp":"${timestamp}","data":${"[".repeat(20_000)}${"]".repeat(20_000)}}`,
    ),
    code: "invalid_record",
    line: 2,
    reason: /nested deeper than 2000 levels/,
    piOpensIt: true,
  },
  "v3: a second header": {
    content: jsonl(V3, record("a", null), V3),
    code: "unsupported_record",
    line: 3,
    reason: /second session header/,
  },
  "v3: a label on a record that is not there": {
    content: jsonl(V3, record("a", null), {
      type: "label",
      id: "b",
      parentId: "a",
      targetId: "x",
      label: "l",
    }),
    code: "missing_reference",
    line: 3,
    reason: /labelled entry "x"/,
  },
  "v3: a summary of something that cannot be a record": {
    content: jsonl(
      V3,
      record("a", null),
      record("b", "a", { type: "branch_summary", fromId: 7, summary: SECRET }),
    ),
    code: "missing_reference",
    line: 3,
    reason: /summarized entry of type number/,
  },
  "v3: a compaction that keeps from another branch": {
    content: jsonl(
      V3,
      record("a", null),
      record("b", "a"),
      record("c", "a"),
      record("d", "c", { type: "compaction", firstKeptEntryId: "b", summary: SECRET, tokensBefore: 1 }),
    ),
    code: "missing_reference",
    line: 5,
    reason: /not on the branch/,
  },
  "v3: usage that is a text": {
    content: jsonl(V3, record("a", null, { message: { role: "assistant", usage: { input: "12" } } })),
    code: "invalid_usage",
    line: 2,
    reason: /`input`/,
  },
  "v3: half a token": {
    content: jsonl(
      V3,
      record("a", null, { message: { role: "assistant", usage: { ...zero, input: 0.5, cost } } }),
    ),
    code: "invalid_usage",
    line: 2,
    reason: /input/,
    piOpensIt: true,
  },
  "v4: bad JSON in the middle": {
    content: jsonl(V4, entry(1, "a", null), "{", entry(2, "b", "a")),
    code: "invalid_json",
    line: 3,
    reason: /not valid JSON/,
  },
  "v4: a seq that does not grow": {
    content: jsonl(V4, entry(3, "a", null), entry(3, "b", "a")),
    code: "invalid_sequence",
    line: 3,
    reason: /seq 3/,
  },
  "v4: a seq that does not grow within a transaction": {
    content: jsonl(V4, [entry(2, "a", null), entry(1, "b", "a")]),
    code: "invalid_sequence",
    line: 2,
    reason: /seq 1/,
  },
  "v4: an id of an entry on a usage row": {
    content: jsonl(V4, entry(1, "a", null), usage(2, "a")),
    code: "duplicate_id",
    line: 3,
    reason: /"a"/,
  },
  "v4: a usage row as parent": {
    content: jsonl(V4, usage(1, "u"), entry(2, "a", "u")),
    code: "missing_parent",
    line: 3,
    reason: /"u"/,
  },
  "v4: a parent later in the transaction": {
    content: jsonl(V4, [entry(1, "a", "b"), entry(2, "b", null)]),
    code: "missing_parent",
    line: 2,
    reason: /"b"/,
  },
  "v4: an unknown kind": {
    content: jsonl(V4, { kind: "blob", seq: 1 }),
    code: "unsupported_record",
    line: 2,
    reason: /unknown kind/,
  },
  "v4: an unknown operation": {
    content: jsonl(V4, { kind: "list", op: "pop", seq: 1, namespace: "n", key: "" }),
    code: "unsupported_record",
    line: 2,
    reason: /operation on a list/,
  },
  "v4: an empty namespace": {
    content: jsonl(V4, { kind: "value", op: "delete", seq: 1, namespace: "", key: "" }),
    code: "invalid_text",
    line: 2,
    reason: /namespace is empty/,
    piOpensIt: true,
  },
  "v4: NUL in a key": {
    content: jsonl(V4, entry(1, "a", null), {
      kind: "value",
      op: "set",
      seq: 2,
      namespace: "n",
      key: "\0",
      value: 1,
    }),
    code: "invalid_text",
    line: 3,
    reason: /key contains a NUL/,
  },
  "v4: a seq that is no number": {
    content: jsonl(V4, entry(1, "a", null, { seq: "1" })),
    code: "invalid_record",
    line: 2,
    reason: /`seq`/,
  },
  "v4: a value without value": {
    content: jsonl(V4, { kind: "value", op: "set", seq: 1, namespace: "n", key: "" }),
    code: "invalid_record",
    line: 2,
    reason: /no `value`/,
    piOpensIt: true,
  },
};

describe("a broken file is reported with line and reason, leaves nothing behind and stops nothing", () => {
  test.each(Object.entries(BROKEN))("%s", async (name, { content, code, line, reason }) => {
    await using directory = await scratch();
    const broken = await directory.write("1-broken", content);
    const good = await directory.write(
      "2-good.jsonl",
      jsonl({ ...V3, id: `good: ${name}` }, record("a", null)),
    );
    const repo = await database.database.repo("default");
    const report = await importAll(repo.importer, [broken, good], {}, context);
    expect(report.files).toEqual([
      { path: broken, status: "failed", code, line, reason: expect.stringMatching(reason) },
      expect.objectContaining({ path: good, status: "imported", entries: 1 }),
    ]);
    expect(report).toMatchObject({ imported: 1, failed: 1, entries: 1 });
    expect(JSON.stringify(report)).not.toContain("words");
    const stored = await database.admin.query(
      `select session_id from "${database.schema}".sessions where session_id in ('v3', 'v4')
       union all select session_id from "${database.schema}".entries where session_id in ('v3', 'v4')`,
    );
    expect(stored.rows).toEqual([]);
    const dryRun = await importAll(repo.importer, [broken], { dryRun: true }, context);
    expect(dryRun.files).toEqual(report.files.slice(0, 1));
  });

  const refusedByPi = Object.entries(BROKEN).filter(([, { piOpensIt }]) => piOpensIt !== true);
  test.each(refusedByPi)("pi does not open it either: %s", async (_, { content, code }) => {
    if (code === "invalid_utf8") return; // pi puts U+FFFD in its place, which here falls on a JSON string
    await using directory = await scratch();
    const path = await directory.write("broken.jsonl", content);
    await expect(inPi(path, async () => {})).rejects.toThrow();
  });
});

test("a line that would be too much for the process is refused", async () => {
  await using directory = await scratch();
  const path = await directory.write("long.jsonl", jsonl(V3));
  await truncate(path, 500 * 1024 * 1024); // takes no room on the disk
  const { importer } = await database.database.repo("default");
  const report = await importAll(importer, [path], {}, context);
  expect(report.files).toMatchObject([
    { status: "failed", code: "line_too_long", line: 2, reason: expect.stringContaining("longer than") },
  ]);
});

test("a file that is not finished is imported up to its last complete line", async () => {
  await using directory = await scratch();
  const torn = Buffer.concat([
    Buffer.from(jsonl({ ...V3, id: "torn" }, record("a", null))),
    Buffer.from([0x7b, 0x22, 0xc3]),
  ]);
  const path = await directory.write("torn.jsonl", torn);
  const { importer } = await database.database.repo("default");
  const report = await importAll(importer, [path], {}, context);
  expect(report.files).toMatchObject([{ status: "imported", entries: 1, bytes: torn.length, tornBytes: 3 }]);
});

test("CRLF, a byte order mark and U+2028 in a text are fine", async () => {
  await using directory = await scratch();
  const content = jsonl(
    { ...V3, id: "crlf" },
    record("a", null, { message: { ...message, content: "a\u2028b" } }),
  );
  const path = await directory.write("crlf.jsonl", `\ufeff${content.replaceAll("\n", "\r\n")}`);
  const repo = await database.database.repo("default");
  expect(await importAll(repo.importer, [path], {}, context)).toMatchObject({ imported: 1 });
  const session = await repo.open({ id: "crlf" }, context);
  expect(await session.getEntry("a", context)).toMatchObject({ message: { content: "a\u2028b" } });
});
