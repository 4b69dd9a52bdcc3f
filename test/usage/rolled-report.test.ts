import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  insertUsage,
  type PgSessionRepo,
  type UsageReportOptions,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repos: PgSessionRepo[];

beforeAll(async () => {
  at = await openTestDatabase();
  const slugs = ["acme", "beta"];
  for (const slug of slugs) await at.database.tenants.create({ slug });
  repos = await Promise.all(slugs.map((slug) => at.database.repo(slug)));
});
afterAll(() => at[Symbol.asyncDispose]());

const HOUR = 3_600_000;
const START = Date.UTC(2026, 8, 28);
let rows = 0;

const spending = fc.record({
  hour: fc.integer({ min: 0, max: 70 * 24 }),
  rest: fc.oneof(
    fc.constantFrom(0, 1, HOUR / 2, HOUR / 2 - 1, HOUR - 1),
    fc.integer({ min: 0, max: HOUR - 1 }),
  ),
  model: fc.constantFrom("large", "small"),
  cost: fc.constantFrom(0, 0.1, 7e-7, -0.1),
  adjustment: fc.boolean(),
});

const time = fc.option(
  fc
    .integer({ min: -24, max: 72 * 24 })
    .chain((hour) => fc.constantFrom(0, HOUR / 2, 17).map((rest) => START + hour * HOUR + rest)),
  { nil: undefined },
);

const question = fc.record({
  from: time,
  to: time,
  timeZone: fc.constantFrom(
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Auckland",
  ),
  unit: fc.constantFrom(undefined, "hour", "day", "week", "month"),
  keys: fc.subarray(["tenant", "provider", "model"]),
  model: fc.constantFrom(undefined, "large"),
  compare: fc.boolean(),
});

type Question = typeof question extends fc.Arbitrary<infer T> ? T : never;

function optionsOf({ from, to, timeZone, unit, keys, model, compare }: Question): UsageReportOptions {
  return {
    timeZone,
    by: [...(unit === undefined ? [] : [unit]), ...keys] as UsageReportOptions["by"] & {},
    ...(from === undefined ? {} : { from: Math.min(from, to ?? from) }),
    ...(to === undefined ? {} : { to: Math.max(to, from ?? to) + 1 }),
    where: model === undefined ? {} : { model },
    ...(compare && from !== undefined && to !== undefined ? { compare } : {}),
  };
}

test("a report from the sums is the same as from the rows, whatever is summed already, in every time zone", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          tenant: fc.nat(1),
          spent: fc.array(spending, { minLength: 1, maxLength: 12 }),
          rollUp: fc.boolean(),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      fc.array(question, { minLength: 4, maxLength: 8 }),
      async (commits, questions) => {
        for (const { tenant, spent, rollUp } of commits) {
          const session = await (repos[tenant] as PgSessionRepo).create({}, context);
          const writes = spent.map(({ hour, rest, model, cost, adjustment }) =>
            insertUsage({
              id: `u${++rows}`,
              adjustment,
              details: { provider: "p", model, timestamp: START + hour * HOUR + rest },
              usage: {
                input: 3,
                output: 1,
                cacheRead: 2,
                cacheWrite: 0,
                totalTokens: 6,
                cost: { input: cost, output: 0, cacheRead: 0, cacheWrite: 0, total: cost },
              },
            }),
          );
          await session.mutate((mutator) => mutator.commit(writes, context), context);
          if (rollUp) await at.owner.usage.rollUp({}, context);
        }
        for (const asked of questions) {
          const options = optionsOf(asked);
          // No sum says the role, so this is asked of the rows.
          const fromRows = { ...options, where: { ...options.where, role: "unknown" } };
          for (const [database, tenant] of [
            [at.owner, {}],
            [at.database, { tenant: "acme" }],
          ] as const) {
            const report = await database.usage.report({ ...options, ...tenant }, context);
            expect(report).toEqual(await database.usage.report({ ...fromRows, ...tenant }, context));
          }
        }
      },
    ),
    { numRuns: 12 },
  );
});

test("what is summed is read from the sums, and its rows are not read again", async () => {
  await at.admin.query(`update "${at.schema}".usage_sums set cost_total = cost_total + 1000`);
  const whole = await at.database.usage.report({ tenant: "acme" }, context);
  expect(Number(whole.total.cost.total)).toBeGreaterThan(900);
  await at.owner.usage.rebuild({}, context);
  const rebuilt = await at.database.usage.report({ tenant: "acme" }, context);
  expect(Number(rebuilt.total.cost.total)).toBeLessThan(900);
});
