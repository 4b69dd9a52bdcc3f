/** What imported sessions spent, against what pi 1.6.0 itself shows for their files (`/session`, field by field). */
import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  createAgentSession,
  SessionManager,
  type SessionStats,
  SettingsManager,
} from "@earendil-works/pi-coding-agent";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, type UsageReport } from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { writeCorpus } from "../archive/corpus.ts";
import { jsonl, type Scratch, scratch } from "../archive/scratch.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";

/** Sessions with branches, summaries, compactions, tools that spend and usage that belongs to no message. */
const SESSIONS = 60;

let at: TestDatabase;
let repo: PgSessionRepo;
let directory: Scratch;
let files: ArchiveOfPi[];
let report: UsageReport;

beforeAll(async () => {
  at = await openTestDatabase();
  directory = await scratch();
  await writeCorpus(directory.path, { v3: SESSIONS, v4: 0, sqlite: 0, shared: 0 }, 20261203);
  repo = await at.database.repo("default");
  const imported = await importAll(repo.importer, [directory.path], {}, context);
  expect(imported.failed).toBe(0);
  files = await Promise.all(imported.files.map(({ path }) => archiveAt(path)));
  report = await at.database.usage.report({ tenant: "default", by: ["session"] }, context);
}, 60_000);
afterAll(async () => {
  await at[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

interface ArchiveOfPi {
  path: string;
  header: { id: string; parentSession?: string };
  records: { id: string }[];
}

async function archiveAt(path: string): Promise<ArchiveOfPi> {
  const lines = (await readFile(path, "utf8")).split("\n").filter((line) => line !== "");
  const [header, ...records] = lines.map((line) => JSON.parse(line));
  return { path, header, records };
}

/** What pi shows of a file. It opens a copy, since opening may write. */
async function shownByPi(path: string): Promise<SessionStats> {
  await using place = await scratch();
  const copy = join(place.path, "session.jsonl");
  await copyFile(path, copy);
  const { session } = await createAgentSession({
    cwd: place.path,
    agentDir: place.path,
    noTools: "all",
    sessionManager: SessionManager.open(copy),
    settingsManager: SettingsManager.inMemory(),
  });
  try {
    return session.getSessionStats();
  } finally {
    session.dispose();
  }
}

/** What pi would show of the part of a fork that was copied from its parent. */
async function shownOfInherited({ header, records }: ArchiveOfPi): Promise<SessionStats> {
  const parent = await archiveAt(header.parentSession as string);
  const known = new Set(parent.records.map(({ id }) => id));
  await using place = await scratch();
  const copied = records.filter(({ id }) => known.has(id));
  return await shownByPi(await place.write("inherited.jsonl", jsonl(header, ...copied)));
}

interface Totals {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
  /** In total. */
  cost: number;
}

const NOTHING: Totals = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0 };

function totalsOf<T extends Omit<Totals, "cost">>(
  { input, output, cacheRead, cacheWrite }: T,
  cost: number | string,
): Totals {
  return { input, output, cacheRead, cacheWrite, cost: Number(cost) };
}

function shownTotals({ tokens, cost }: SessionStats): Totals {
  // pi's total of tokens is the sum of these four. Ours is what providers count.
  expect(tokens.total).toBe(tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite);
  return totalsOf(tokens, cost);
}

/** pi sums doubles, the ledger decimals: the last digits of a sum may differ. */
function about({ cost, ...tokens }: Totals) {
  return { ...tokens, cost: expect.closeTo(cost, 6) };
}

async function totalsInSession(id: string): Promise<Totals> {
  const session = await repo.open({ id }, context);
  const { usage } = await session.getStats(context);
  await session.close(context);
  return totalsOf(usage, usage.cost.total);
}

function totalsInReport(id: string): Totals {
  const row = report.rows.find(({ group }) => group.session === id);
  return row === undefined ? NOTHING : totalsOf(row, row.cost.total);
}

async function totalsInLedger(): Promise<Map<string, Totals>> {
  const { rows } = await at.admin.query<Record<keyof Totals, string> & { id: string }>(
    `select session_id as id, sum(input) as input, sum(output) as output, sum(cache_read) as "cacheRead",
       sum(cache_write) as "cacheWrite", sum(cost_total) as cost
     from "${at.schema}".usage_ledger group by 1`,
  );
  return new Map(
    rows.map(({ id, ...sums }) => [
      id,
      Object.fromEntries(
        Object.entries(sums).map(([field, sum]) => [field, Number(sum)]),
      ) as unknown as Totals,
    ]),
  );
}

test("tokens and cost of a session are pi's, in its stats, the ledger and the report, whatever branch they are on", async () => {
  const ledger = await totalsInLedger();
  const whole = files.filter(({ header }) => header.parentSession === undefined);
  expect(whole).toHaveLength(SESSIONS);
  for (const { path, header } of whole) {
    const shown = shownTotals(await shownByPi(path));
    // Both add the same doubles in the same order.
    expect(await totalsInSession(header.id)).toEqual(shown);
    expect(ledger.get(header.id) ?? NOTHING).toEqual(about(shown));
    expect(totalsInReport(header.id)).toEqual(about(shown));
  }
});

test("a fork spent what pi shows of it without what it was copied with, which its parent spent", async () => {
  const ledger = await totalsInLedger();
  const forks = files.filter(({ header }) => header.parentSession !== undefined);
  expect(forks.length).toBeGreaterThan(10);
  for (const fork of forks) {
    const { id } = fork.header;
    const shown = shownTotals(await shownByPi(fork.path));
    const inherited = shownTotals(await shownOfInherited(fork));
    const own = about({
      input: shown.input - inherited.input,
      output: shown.output - inherited.output,
      cacheRead: shown.cacheRead - inherited.cacheRead,
      cacheWrite: shown.cacheWrite - inherited.cacheWrite,
      cost: shown.cost - inherited.cost,
    });
    expect(await totalsInSession(id)).toEqual(own);
    expect(ledger.get(id) ?? NOTHING).toEqual(own);
    expect(totalsInReport(id)).toEqual(own);
  }
});

test("the report's total is the sum of what pi shows, with nothing counted twice", async () => {
  const shown = await Promise.all(files.map(async ({ path }) => shownTotals(await shownByPi(path))));
  const inherited = await Promise.all(
    files.filter(({ header }) => header.parentSession !== undefined).map(shownOfInherited),
  );
  const sum = (field: keyof Totals) =>
    shown.reduce((total, totals) => total + totals[field], 0) -
    inherited.reduce((total, stats) => total + shownTotals(stats)[field], 0);
  const { total } = report;
  expect(totalsOf(total, total.cost.total)).toEqual(
    about({
      ...{ input: sum("input"), output: sum("output") },
      ...{ cacheRead: sum("cacheRead"), cacheWrite: sum("cacheWrite"), cost: sum("cost") },
    }),
  );
});

test("messages are those that pi counts, and custom messages, which it does not", async () => {
  for (const { path, header } of files) {
    const shown = await shownByPi(path);
    const session = await repo.open(header, context);
    const { messageCount } = await session.getStats(context);
    const messages = (await session.findEntries(undefined, context)).flatMap((entry) =>
      entry.type === "message" ? [entry.message] : [],
    );
    await session.close(context);
    const count = (role: string) => messages.filter((message) => message.role === role).length;
    expect(messageCount).toBe(messages.length);
    expect({
      userMessages: count("user"),
      assistantMessages: count("assistant"),
      toolResults: count("toolResult"),
      totalMessages: messageCount - count("custom"),
    }).toEqual({
      userMessages: shown.userMessages,
      assistantMessages: shown.assistantMessages,
      toolResults: shown.toolResults,
      totalMessages: shown.totalMessages,
    });
  }
});
