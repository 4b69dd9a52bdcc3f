import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, type UsageKey, type UsageReportOptions } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { expectedReport } from "./expected-report.ts";
import { type Sessions, type Spent, spend } from "./spending.ts";

let at: TestDatabase;
let tenants = 0;

beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const SESSIONS: Sessions = {
  a: { cwd: "/work", metadata: { team: "red", project: 7 } },
  b: { cwd: "/work", metadata: { team: "blue" } },
  c: {},
};

const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "America/St_Johns",
  "Asia/Kolkata",
  "Asia/Kathmandu",
  "Australia/Lord_Howe",
  "Pacific/Apia",
];

const HOUR_MS = 3_600_000;

/** Around clock changes, year ends and month ends; and anywhere in 2026. */
const time = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(
        "2026-03-29T01:00Z", // Berlin, forward
        "2026-10-25T01:00Z", // Berlin, back
        "2026-10-03T15:30Z", // Lord Howe, forward by half an hour
        "2026-04-04T15:00Z", // Lord Howe, back by half an hour
        "2025-12-31T23:00Z",
        "2026-12-31T18:30Z",
        "2026-02-28T23:00Z",
        "2026-10-31T23:00Z",
        "2026-11-01T00:00Z",
        "2026-09-30T23:00Z",
        "2026-10-30T23:00Z",
      ),
      fc.oneof(
        fc.constantFrom(-HOUR_MS, -HOUR_MS / 2, 0, HOUR_MS / 2, HOUR_MS),
        fc.integer({ min: -3 * HOUR_MS, max: 3 * HOUR_MS }),
      ),
    )
    .map(([near, offset]) => Date.parse(near) + offset),
  fc.integer({ min: Date.parse("2026-01-01T00:00Z"), max: Date.parse("2027-01-01T00:00Z") }),
);

const tokens = fc.integer({ min: 0, max: 1_000_000 });
const price = fc.constantFrom(0, 0, 0.1, 0.2, 0.30000000000000004, 1e-7, 1.005, 12_345.678_901_2);

const row: fc.Arbitrary<Spent> = fc.record({
  at: time,
  session: fc.constantFrom("a", "b", "c"),
  provider: fc.constantFrom("acme", "other", null),
  model: fc.constantFrom("large", "small", "free", null),
  adjustment: fc.constant(false),
  input: tokens,
  output: tokens,
  cacheRead: tokens,
  cacheWrite: tokens,
  cacheWrite1h: tokens,
  reasoning: tokens,
  totalTokens: fc.constantFrom(0, 1, 1_000),
  cost: price,
  costs: fc.record({ input: price, output: price, cacheRead: price, cacheWrite: price }),
});

const adjustment: fc.Arbitrary<Spent> = fc
  .tuple(row, fc.constantFrom(-0.1, 0.7, -12_345.678_901_2))
  .map(([adjusted, cost]) => ({ ...adjusted, cost, adjustment: true }));

const ledger = fc.array(
  fc
    .oneof({ arbitrary: row, weight: 4 }, adjustment)
    .map((spent) => (spent.model === "free" ? { ...spent, cost: 0 } : spent)),
  { maxLength: 30 },
);

const DIMENSIONS = ["dimension:team", "dimension:project", "dimension:missing"] as const;
const KEYS: UsageKey[] = [
  "tenant",
  "provider",
  "model",
  "session",
  "root",
  "cwd",
  "entryType",
  "role",
  ...DIMENSIONS,
];

/** Local dates whose beginning is in one of the times above, in one of the zones. */
const month = fc.constantFrom(
  "2026-01-01",
  "2026-02-01",
  "2026-03-01",
  "2026-04-01",
  "2026-10-01",
  "2026-11-01",
);
const date = fc.constantFrom(
  "2026-03-16",
  "2026-03-29",
  "2026-04-05",
  "2026-10-04",
  "2026-10-26",
  "2026-11-01",
);
const fewDays = fc.integer({ min: 1, max: 60 });
const fewMonths = fc.integer({ min: 1, max: 4 });
const period = fc.oneof(
  fc.record({ from: fc.option(date, { nil: undefined }), to: fc.constantFrom(undefined, "2026-12-01") }),
  fc.tuple(month, fewMonths).map(([from, months]) => ({ from, to: dateAfter(from, months, 0) })),
  fc.tuple(date, fewDays).map(([from, days]) => ({ from, to: dateAfter(from, 0, days) })),
  fc.tuple(time, fc.integer({ min: 1, max: 5_000 })).map(([from, hours]) => ({
    from,
    to: from + hours * HOUR_MS,
  })),
) as fc.Arbitrary<Pick<UsageReportOptions, "from" | "to">>;

function dateAfter(from: string, months: number, days: number): string {
  const date = new Date(from);
  date.setUTCMonth(date.getUTCMonth() + months, date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

const where = fc.record(
  {
    model: fc.constantFrom<string | string[]>("large", ["small", "unknown"], ["nobody"]),
    provider: fc.constantFrom<string | string[]>("acme", ["other", "unknown"]),
    session: fc.constantFrom<string | string[]>("a", ["b", "c"]),
    cwd: fc.constant("/work"),
    role: fc.constant("unknown"),
    dimensions: fc.constantFrom<Record<string, string | string[]>>(
      { team: "red" },
      { team: ["red", "blue"], project: "7" },
    ),
  },
  { requiredKeys: [] },
);

const options: fc.Arbitrary<UsageReportOptions> = fc
  .record({
    unit: fc.option(fc.constantFrom("hour" as const, "day" as const, "week" as const, "month" as const), {
      nil: undefined,
    }),
    keys: fc.subarray(KEYS, { maxLength: 3 }),
    period,
    timeZone: fc.constantFrom(...ZONES),
    where: fc.oneof(fc.constant({}), where),
    top: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
    cumulative: fc.boolean(),
    compare: fc.boolean(),
  })
  .map(({ unit, keys, period: { from, to }, timeZone, where, top, cumulative, compare }) => ({
    by: [...(unit === undefined ? [] : [unit]), ...keys],
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    timeZone,
    where,
    ...(top === undefined || keys.length === 0 ? {} : { top }),
    cumulative: cumulative && unit !== undefined,
    // What an hour of the other period moves to is tested apart.
    compare: compare && unit !== "hour" && from !== undefined && to !== undefined,
  }));

test("a report is what its rows add up to, whatever the ledger, the question and the time zone", async () => {
  await fc.assert(
    fc.asyncProperty(
      ledger,
      fc.array(options, { minLength: 8, maxLength: 8 }),
      fc.nat(),
      async (rows, questions, rolled) => {
        const tenant = `tenant ${tenants++}`;
        await at.database.tenants.create({ slug: tenant });
        await at.database.usage.setDimensions(tenant, ["team", "project"]);
        const settled = rolled % (rows.length + 1);
        await spend(at.database, tenant, rows.slice(0, settled), SESSIONS);
        await at.database.usage.rollUp({ tenant }, context);
        await spend(at.database, tenant, rows.slice(settled), SESSIONS);
        for (const question of questions) {
          const asked = { ...question, tenant };
          expect(await at.database.usage.report(asked, context)).toEqual(
            expectedReport(rows, SESSIONS, asked),
          );
        }
      },
    ),
    { numRuns: 60 },
  );
}, 300_000);
