import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  type Usage,
  type UsageGroup,
  type UsageKey,
} from "../../src/index.ts";
import { openTestDatabase } from "../support/database.ts";
import { importAll } from "../support/import-all.ts";
import { decimalOf, textOf } from "./decimal.ts";

const ARCHIVES = fileURLToPath(new URL("../../examples/archives", import.meta.url));

/** What a file says that was spent, read without the importer. */
interface RawSpent {
  session: string;
  provider: string;
  model: string;
  day: string;
  usage: Usage;
}

// biome-ignore lint/suspicious/noExplicitAny: lines of any version
type Line = any;

async function rawSpent(): Promise<RawSpent[]> {
  const spent: RawSpent[] = [];
  for await (const file of glob(join(ARCHIVES, "**/*.jsonl"))) {
    const text = await readFile(file, "utf8");
    const lines: Line[] = text
      .split("\n")
      .filter(Boolean)
      .flatMap((line) => JSON.parse(line));
    spent.push(...(lines[0].v === 4 ? spentInV4(lines) : spentInV3(lines)));
  }
  return spent;
}

/** Messages, and summaries, of which nobody tells the model. What spent nothing, as a call that was cut off, is no row. */
function spentInV3([{ id: session }, ...lines]: Line[]): RawSpent[] {
  return lines
    .filter(({ message, usage }) => hasSpent(message?.usage ?? usage))
    .map(({ timestamp, usage, message = { provider: "unknown", model: "unknown", usage } }) => {
      const { input, output, cacheRead, cacheWrite } = message.usage;
      const totalTokens = message.usage.totalTokens ?? input + output + cacheRead + cacheWrite;
      const { provider, model } = message;
      return {
        session,
        provider,
        model,
        day: timestamp.slice(0, 10),
        usage: { ...message.usage, totalTokens },
      };
    });
}

function hasSpent(usage: Line): boolean {
  return usage !== undefined && (usage.cost.total !== 0 || TOKENS.some((field) => usage[field] > 0));
}

function spentInV4([{ id: session }, ...lines]: Line[]): RawSpent[] {
  const entries = new Map(lines.filter(({ kind }) => kind === "entry").map((entry) => [entry.id, entry]));
  return lines
    .filter(({ kind }) => kind === "usage")
    .map(({ entryId, usage }) => {
      const { message, timestamp } = entries.get(entryId);
      const day = new Date(timestamp).toISOString().slice(0, 10);
      return { session, provider: message.provider, model: message.model, day, usage };
    });
}

const TOKENS = [
  "input",
  "output",
  "cacheRead",
  "cacheWrite",
  "cacheWrite1h",
  "reasoning",
  "totalTokens",
] as const;
const COSTS = ["input", "output", "cacheRead", "cacheWrite", "total"] as const;

/** Field by field, with integers and exact decimals. */
function addedUp(spent: readonly RawSpent[]) {
  const tokens = TOKENS.map((field) => [
    field,
    spent.reduce((sum, { usage }) => sum + (usage[field] ?? 0), 0),
  ]);
  const costs = COSTS.map((field) => [
    field,
    textOf(spent.reduce((sum, { usage }) => sum + decimalOf(usage.cost[field]), 0n)),
  ]);
  return { calls: spent.length, ...Object.fromEntries(tokens), cost: Object.fromEntries(costs) };
}

test("reports of imported archives are what their lines add up to, field by field", async () => {
  await using at = await openTestDatabase();
  const repo = await at.database.repo("default");
  const { failed } = await importAll(repo.importer, [ARCHIVES], {}, context);
  expect(failed).toBe(0);
  const spent = await rawSpent();
  expect(spent.length).toBeGreaterThan(10);
  const report = (by: UsageKey[]) => at.database.usage.report({ tenant: "default", by }, context);

  expect((await report([])).total).toMatchObject(addedUp(spent));
  const questions: ("session" | "provider" | "model" | "day")[][] = [
    ["session"],
    ["provider", "model"],
    ["day", "model"],
  ];
  for (const by of questions) {
    const groups = Map.groupBy(spent, (row) => JSON.stringify(by.map((key) => row[key])));
    const { rows } = await report(by);
    expect(rows).toHaveLength(groups.size);
    for (const row of rows as UsageGroup[]) {
      const group = groups.get(JSON.stringify(by.map((key) => row.group[key])));
      expect(row).toMatchObject(addedUp(group ?? []));
    }
  }
});
