import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  type Database,
  openDatabase,
  type UsageKey,
  type UsageReport,
  type UsageReportOptions,
} from "../../src/index.ts";
import { tenantOf } from "../../src/postgres/tenant-id.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { type Sessions, type Spent, spend } from "./spending.ts";

let at: TestDatabase;
let tenants = 0;

beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

/** A new tenant that has spent this. */
async function tenantWith(rows: readonly Spent[], sessions?: Sessions): Promise<string> {
  const tenant = `tenant ${tenants++}`;
  await at.database.tenants.create({ slug: tenant });
  await spend(at.database, tenant, rows, sessions);
  return tenant;
}

function report(options: UsageReportOptions): Promise<UsageReport> {
  return at.database.usage.report(options, context);
}

/** Calls by the values of the keys, in the order of the rows. */
function callsOf({ by, rows }: UsageReport): [string, number][] {
  return rows.map(({ group, isRemainder, calls }) => [
    isRemainder ? "the rest" : by.map((key) => String(group[key])).join(" "),
    calls,
  ]);
}

const NOON = "2026-11-01T12:00Z";

const NOTHING = {
  ...{ calls: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, reasoning: 0 },
  totalTokens: 0,
  cost: { input: "0", output: "0", cacheRead: "0", cacheWrite: "0", total: "0" },
  adjustments: { rows: 0, cost: "0" },
  cacheHitRatio: null,
  costPerCall: null,
  unpricedCalls: 0,
};

describe("what a report adds up", () => {
  test("is nothing, for a tenant that spent nothing", async () => {
    const tenant = await tenantWith([]);
    expect(await report({ tenant, by: ["day", "model"], top: 3, cumulative: true })).toEqual({
      from: null,
      to: null,
      timeZone: "UTC",
      by: ["day", "model"],
      isCumulative: true,
      rows: [],
      total: NOTHING,
    });
  });

  test("is all columns of one row", async () => {
    const tokens = {
      input: 100,
      output: 50,
      cacheRead: 300,
      cacheWrite: 200,
      cacheWrite1h: 80,
      reasoning: 20,
    };
    const costs = { input: 0.1, output: 0.2, cacheRead: 0.03, cacheWrite: 0.4 };
    const tenant = await tenantWith([{ at: NOON, ...tokens, totalTokens: 650, cost: 0.73, costs }]);
    const { rows, total } = await report({ tenant, by: ["model"] });
    const sums = {
      calls: 1,
      ...tokens,
      totalTokens: 650,
      cost: { input: "0.1", output: "0.2", cacheRead: "0.03", cacheWrite: "0.4", total: "0.73" },
      adjustments: { rows: 0, cost: "0" },
      cacheHitRatio: 0.5,
      costPerCall: "0.73",
      unpricedCalls: 0,
    };
    expect(total).toEqual(sums);
    expect(rows).toEqual([{ group: { model: "m" }, isRemainder: false, ...sums }]);
  });

  test("is exact: a tenth, ten thousand times, is a thousand", async () => {
    const tenant = await tenantWith(Array.from({ length: 10_000 }, () => ({ at: NOON, cost: 0.1 })));
    const { total } = await report({ tenant });
    expect(total.cost.total).toBe("1000");
    expect(total.costPerCall).toBe("0.1");
  });

  test("is a decimal in full, however small and large its parts", async () => {
    const costs = [1e-21, 0.30000000000000004, 123_456_789_012.25];
    const tenant = await tenantWith(costs.map((cost) => ({ at: NOON, cost })));
    expect((await report({ tenant })).total.cost.total).toBe("123456789012.550000000000000040001");
  });

  test("by calls has twelve places, however large the amount", async () => {
    const tenant = await tenantWith([
      { at: NOON, cost: 1e20 },
      { at: NOON, cost: 0.3 },
      { at: NOON, cost: 0, totalTokens: 0 },
    ]);
    const { total } = await report({ tenant });
    expect(total.costPerCall).toBe("33333333333333333333.433333333333");
  });

  test("is net of adjustments, which are told apart too and are no calls", async () => {
    const tenant = await tenantWith([
      { at: NOON, cost: 1, input: 10 },
      { at: NOON, cost: -0.25, input: -1, totalTokens: 0, adjustment: true },
    ]);
    expect((await report({ tenant })).total).toMatchObject({
      calls: 1,
      input: 9,
      cost: { total: "0.75" },
      adjustments: { rows: 1, cost: "-0.25" },
      costPerCall: "0.75",
    });
  });

  test("is rejected where JavaScript cannot say it exactly", async () => {
    const tenant = await tenantWith([
      { at: NOON, input: Number.MAX_SAFE_INTEGER },
      { at: NOON, input: 1 },
    ]);
    await expect(report({ tenant })).rejects.toMatchObject({
      code: "usage_overflow",
      field: "input",
      sum: "9007199254740992",
    });
  });
});

describe("calls that cost nothing", () => {
  test("are unpriced on a model that costs the tenant something, also at another time, and free on others", async () => {
    const tenant = await tenantWith([
      { at: "2020-01-01T00:00Z", model: "dear", cost: 1 },
      { at: NOON, model: "dear" },
      { at: NOON, model: "dear", totalTokens: 0 },
      { at: NOON, model: "dear", adjustment: true },
      { at: NOON, model: "free" },
      { at: NOON, model: "dear", provider: "other" },
    ]);
    // What others pay for it is no matter.
    await tenantWith([{ at: NOON, model: "free", cost: 1 }]);
    const unpriced = async () => {
      const { rows } = await report({
        tenant,
        by: ["provider", "model"],
        from: "2026",
        where: { role: "unknown" },
      });
      return rows.map(({ group, unpricedCalls }) => [group.provider, group.model, unpricedCalls]);
    };
    const expected = [
      ["other", "dear", 0],
      ["p", "dear", 1],
      ["p", "free", 0],
    ];
    expect(await unpriced()).toEqual(expected);
    await at.database.usage.rollUp({ tenant }, context);
    expect(await unpriced()).toEqual(expected);
  });
});

describe("filters", () => {
  test.each(["dimensions", "constructor", "model"])("by a dimension that is called %s", async (key) => {
    const tenant = await tenantWith([]);
    await at.database.usage.setDimensions(tenant, [key]);
    await spend(
      at.database,
      tenant,
      [
        { at: NOON, session: "a" },
        { at: NOON, session: "b" },
      ],
      {
        a: { metadata: { [key]: "red" } },
        b: { metadata: { [key]: "blue" } },
      },
    );
    const { total } = await report({ tenant, where: { dimensions: { [key]: "red" } } });
    expect(total.calls).toBe(1);
    const either = await report({ tenant, where: { dimensions: { [key]: ["blue", "green"] } } });
    expect(either.total.calls).toBe(1);
  });
});

describe("what nobody told", () => {
  test("is shown as unknown, and what a session does not have as null", async () => {
    const tenant = await tenantWith([{ at: NOON, provider: null, model: null, cost: 2 }], { s: {} });
    const by: UsageKey[] = ["provider", "model", "entryType", "role", "cwd", "dimension:team"];
    const { rows } = await report({ tenant, by });
    expect(rows[0]).toMatchObject({
      group: {
        provider: "unknown",
        model: "unknown",
        entryType: "unknown",
        role: "unknown",
        cwd: null,
        "dimension:team": null,
      },
      cost: { total: "2" },
    });
    expect(callsOf(await report({ tenant, where: { model: "unknown" }, by: ["model"] }))).toEqual([
      ["unknown", 1],
    ]);
  });
});

describe("units of time", () => {
  test.each<[string, string, UsageKey, [string, string][]]>([
    [
      "hours of the day on which clocks go forward",
      "Europe/Berlin",
      "hour",
      [
        ["2026-03-29T00:59:59.999Z", "2026-03-29T01:00+01:00"],
        ["2026-03-29T01:00Z", "2026-03-29T03:00+02:00"],
      ],
    ],
    [
      "the hour that clocks show twice, each time with its offset",
      "Europe/Berlin",
      "hour",
      [
        ["2026-10-25T00:30Z", "2026-10-25T02:00+02:00"],
        ["2026-10-25T01:30Z", "2026-10-25T02:00+01:00"],
        ["2026-10-25T02:00Z", "2026-10-25T03:00+01:00"],
      ],
    ],
    [
      "days of 23 and 25 hours",
      "Europe/Berlin",
      "day",
      [
        ["2026-03-28T23:00Z", "2026-03-29"],
        ["2026-03-29T21:59:59.999Z", "2026-03-29"],
        ["2026-03-29T22:00Z", "2026-03-30"],
        ["2026-10-24T21:59Z", "2026-10-24"],
        ["2026-10-24T22:00Z", "2026-10-25"],
        ["2026-10-25T22:59Z", "2026-10-25"],
        ["2026-10-25T23:00Z", "2026-10-26"],
      ],
    ],
    [
      "hours where clocks go back by half an hour",
      "Australia/Lord_Howe",
      "hour",
      [
        ["2026-04-04T14:00Z", "2026-04-05T01:00+11:00"],
        ["2026-04-04T14:45Z", "2026-04-05T01:00+11:00"],
        ["2026-04-04T15:15Z", "2026-04-05T01:00+10:30"],
        ["2026-04-04T15:30Z", "2026-04-05T02:00+10:30"],
      ],
    ],
    [
      "hours where clocks go forward by half an hour",
      "Australia/Lord_Howe",
      "hour",
      [
        ["2026-10-03T15:15Z", "2026-10-04T01:00+10:30"],
        ["2026-10-03T15:45Z", "2026-10-04T02:00+11:00"],
        ["2026-10-03T16:00Z", "2026-10-04T03:00+11:00"],
      ],
    ],
    [
      "days half an hour off",
      "Asia/Kolkata",
      "day",
      [
        ["2026-12-31T18:29:59.999Z", "2026-12-31"],
        ["2026-12-31T18:30Z", "2027-01-01"],
      ],
    ],
    [
      "hours a quarter off",
      "Asia/Kathmandu",
      "hour",
      [
        ["2026-12-31T18:14Z", "2026-12-31T23:00+05:45"],
        ["2026-12-31T18:15Z", "2027-01-01T00:00+05:45"],
      ],
    ],
    ["hours behind UTC", "America/St_Johns", "hour", [["2026-12-31T18:30Z", "2026-12-31T15:00-03:30"]]],
    [
      "months at the end of a year",
      "Pacific/Kiritimati",
      "month",
      [
        ["2026-12-31T09:59Z", "2026-12"],
        ["2026-12-31T10:00Z", "2027-01"],
      ],
    ],
    [
      "weeks from Monday, across the end of a year",
      "UTC",
      "week",
      [
        ["2026-12-27T23:59Z", "2026-12-21"],
        ["2026-12-28T00:00Z", "2026-12-28"],
        ["2027-01-03T23:59Z", "2026-12-28"],
        ["2027-01-04T00:00Z", "2027-01-04"],
      ],
    ],
    [
      "a name that PostgreSQL takes for an abbreviation",
      "CET",
      "hour",
      [["2026-07-01T12:00Z", "2026-07-01T14:00+02:00"]],
    ],
    ["days without midnight", "Africa/Cairo", "day", [["2026-04-23T22:30Z", "2026-04-24"]]],
  ])("%s", async (_, timeZone, unit, times) => {
    const tenant = await tenantWith(times.map(([at]) => ({ at })));
    const expected = new Map<string, number>();
    for (const [, label] of times) expected.set(label, (expected.get(label) ?? 0) + 1);
    expect(callsOf(await report({ tenant, by: [unit], timeZone }))).toEqual([...expected]);
  });

  test("a day is from midnight to midnight where it was said to be", async () => {
    const tenant = await tenantWith([
      { at: "2026-10-24T21:59:59.999Z" },
      { at: "2026-10-24T22:00Z" },
      { at: "2026-10-25T22:59:59.999Z" },
      { at: "2026-10-25T23:00Z" },
    ]);
    const { from, to, total } = await report({
      tenant,
      from: "2026-10-25",
      to: "2026-10-26",
      timeZone: "Europe/Berlin",
    });
    expect([from, to].map((time) => new Date(time as number).toISOString())).toEqual([
      "2026-10-24T22:00:00.000Z",
      "2026-10-25T23:00:00.000Z",
    ]);
    expect(total.calls).toBe(2);
  });

  test.each<[UsageReportOptions["from"], string]>([
    ["2026", "2025-12-31T23:00:00.000Z"],
    ["2026-07", "2026-06-30T22:00:00.000Z"],
    ["2026-07-01", "2026-06-30T22:00:00.000Z"],
    ["2026-07-01T09:30", "2026-07-01T07:30:00.000Z"],
    ["2026-07-01 09:30:15.5", "2026-07-01T07:30:15.500Z"],
    ["2026-07-01T09:30Z", "2026-07-01T09:30:00.000Z"],
    ["2026-07-01T09:30:00-05:00", "2026-07-01T14:30:00.000Z"],
    [new Date("2026-07-01T09:30Z"), "2026-07-01T09:30:00.000Z"],
    [1_000, "1970-01-01T00:00:01.000Z"],
  ])("%s is a time in Berlin", async (from, expected) => {
    const { from: read } = await report({
      tenant: "default",
      from: from as string,
      timeZone: "Europe/Berlin",
    });
    expect(new Date(read as number).toISOString()).toBe(expected);
  });
});

describe("order and top", () => {
  const ROWS: Spent[] = [
    { at: "2026-11-02T00:00Z", model: "a", cost: 1 },
    { at: "2026-11-01T00:00Z", model: "a", cost: 1 },
    { at: "2026-11-01T00:00Z", model: "b", cost: 5 },
    { at: "2026-11-01T00:00Z", model: "c", cost: 2, input: 9 },
    { at: "2026-11-02T00:00Z", model: "d", cost: 3 },
  ];

  test("by time, then by cost, where nothing else is said", async () => {
    const tenant = await tenantWith(ROWS);
    expect(callsOf(await report({ tenant, by: ["model", "day"] })).map(([name]) => name)).toEqual([
      "b 2026-11-01",
      "c 2026-11-01",
      "a 2026-11-01",
      "d 2026-11-02",
      "a 2026-11-02",
    ]);
  });

  test.each<[UsageReportOptions["orderBy"], string[]]>([
    [{ column: "cost" }, ["b", "d", "a", "c"]],
    [{ column: "cost", direction: "asc" }, ["a", "c", "d", "b"]],
    [{ column: "calls" }, ["a", "b", "d", "c"]],
    [{ column: "input" }, ["c", "b", "d", "a"]],
    [{ column: "model", direction: "desc" }, ["d", "c", "b", "a"]],
    [{ column: "costPerCall" }, ["b", "d", "c", "a"]],
    // Null where there is no input.
    [{ column: "cacheHitRatio" }, ["c", "b", "d", "a"]],
  ])("by %j", async (orderBy, models) => {
    const tenant = await tenantWith(ROWS);
    const { rows } = await report({ tenant, by: ["model"], orderBy: orderBy as never });
    expect(rows.map(({ group }) => group.model)).toEqual(models);
  });

  test("top shows the most expensive over all the time, each in each unit, and sums the rest behind them", async () => {
    const tenant = await tenantWith([...ROWS, { at: "2026-11-02T00:00Z", model: "c", cost: 2 }]);
    const shown = await report({ tenant, by: ["day", "model"], top: 2 });
    expect(
      shown.rows.map(({ group, isRemainder, cost }) => [group.day, group.model, isRemainder, cost.total]),
    ).toEqual([
      ["2026-11-01", "b", false, "5"],
      ["2026-11-01", "c", false, "2"],
      ["2026-11-01", null, true, "1"],
      ["2026-11-02", "c", false, "2"],
      ["2026-11-02", null, true, "4"],
    ]);
    expect(shown.total.cost.total).toBe("14");
  });

  test("what remains stands last in any order, and only if there is something", async () => {
    const tenant = await tenantWith(ROWS);
    const orderBy = { column: "cost", direction: "desc" } as const;
    expect(callsOf(await report({ tenant, by: ["model"], top: 1, orderBy }))).toEqual([
      ["b", 1],
      ["the rest", 4],
    ]);
    expect(callsOf(await report({ tenant, by: ["model"], top: 4, orderBy })).map(([name]) => name)).toEqual([
      "b",
      "d",
      "a",
      "c",
    ]);
  });

  test("cumulative sums run along time, for each group and for the rest", async () => {
    const tenant = await tenantWith(ROWS);
    const { rows } = await report({ tenant, by: ["day", "model"], top: 2, cumulative: true });
    expect(rows.map(({ group, cost }) => [group.day, group.model, cost.total])).toEqual([
      ["2026-11-01", "b", "5"],
      ["2026-11-01", null, "3"],
      ["2026-11-02", "d", "3"],
      ["2026-11-02", null, "4"],
    ]);
  });
});

describe("the period before", () => {
  const ofCost = ({ rows, total }: UsageReport) => [
    ...rows.map(({ group, cost, previous }) => [...Object.values(group), cost.total, previous?.cost.total]),
    [total.cost.total, total.previous?.cost.total],
  ];
  const bounds = ({ previous }: UsageReport) =>
    [previous?.from, previous?.to].map((time) => new Date(time as number).toISOString());

  test("of a month is the month before, however long", async () => {
    const tenant = await tenantWith([
      { at: "2026-10-01T00:00Z", cost: 1 },
      { at: "2026-10-31T23:00Z", cost: 2 },
      { at: "2026-11-01T00:00Z", cost: 4 },
      { at: "2026-11-30T00:00Z", cost: 8 },
      { at: "2026-09-30T23:59Z", cost: 16 },
      { at: "2026-12-01T00:00Z", cost: 32 },
    ]);
    const november = { tenant, from: "2026-11", to: "2026-12", compare: true } as const;
    const byMonth = await report({ ...november, by: ["month"] });
    expect(bounds(byMonth)).toEqual(["2026-10-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z"]);
    expect(ofCost(byMonth)).toEqual([
      ["2026-11", "12", "3"],
      ["12", "3"],
    ]);
    // November has no 31st, so that of October is in the total only.
    expect(ofCost(await report({ ...november, by: ["day"] }))).toEqual([
      ["2026-11-01", "4", "1"],
      ["2026-11-30", "8", "0"],
      ["12", "3"],
    ]);
    expect(ofCost(await report({ ...november, by: ["week"] }))).toEqual([
      ["2026-10-26", "4", "1"],
      ["2026-11-30", "8", "0"],
      ["12", "3"],
    ]);
    expect(ofCost(await report({ ...november, by: ["model"] }))).toEqual([
      ["m", "12", "3"],
      ["12", "3"],
    ]);
  });

  test("of days is as many days, also if one of them has 25 hours", async () => {
    const tenant = await tenantWith([
      { at: "2026-10-23T22:00Z", cost: 1 },
      { at: "2026-10-24T22:00Z", cost: 2 },
    ]);
    const berlin = { tenant, timeZone: "Europe/Berlin", compare: true } as const;
    const day = await report({ ...berlin, from: "2026-10-25", to: "2026-10-26" });
    expect(bounds(day)).toEqual(["2026-10-23T22:00:00.000Z", "2026-10-24T22:00:00.000Z"]);
    expect(ofCost(day)).toEqual([["2", "1"]]);
    expect(ofCost(await report({ ...berlin, by: ["hour"], from: "2026-10-25", to: "2026-10-26" }))).toEqual([
      ["2026-10-25T00:00+02:00", "2", "1"],
      ["2", "1"],
    ]);
    // The same days, said in milliseconds.
    const [from, to] = [new Date("2026-10-24T22:00Z"), new Date("2026-10-25T23:00Z")];
    expect(bounds(await report({ ...berlin, from, to }))).toEqual(bounds(day));
  });

  test("of anything else is as long", async () => {
    const tenant = await tenantWith([
      { at: "2026-11-01T09:30Z", cost: 1 },
      { at: "2026-11-01T11:00Z", cost: 2 },
    ]);
    const shown = await report({
      tenant,
      by: ["hour"],
      from: "2026-11-01T10:30",
      to: "2026-11-01T12:00",
      compare: true,
    });
    expect(bounds(shown)).toEqual(["2026-11-01T09:00:00.000Z", "2026-11-01T10:30:00.000Z"]);
    expect(ofCost(shown)).toEqual([
      ["2026-11-01T11:00+00:00", "2", "1"],
      ["2", "1"],
    ]);
  });

  test("shows groups that have nothing any more", async () => {
    const tenant = await tenantWith([
      { at: "2026-10-05T00:00Z", model: "old", cost: 1 },
      { at: "2026-11-05T00:00Z", model: "new", cost: 2 },
    ]);
    expect(
      ofCost(await report({ tenant, by: ["model"], from: "2026-11", to: "2026-12", compare: true })),
    ).toEqual([
      ["new", "2", "0"],
      ["old", "0", "1"],
      ["2", "1"],
    ]);
  });
});

describe("who sees what", () => {
  test("a tenant's report is of its own ledger, and no application sees all", async () => {
    const [red, blue] = [
      await tenantWith([{ at: NOON, cost: 1 }]),
      await tenantWith([{ at: NOON, cost: 2 }]),
    ];
    for (const [tenant, cost] of [
      [red, "1"],
      [blue, "2"],
    ] as const) {
      const { rows } = await report({ tenant, by: ["tenant"] });
      expect(rows.map(({ group, cost }) => [group.tenant, cost.total])).toEqual([[tenant, cost]]);
    }
    await expect(report({ by: ["tenant"] })).rejects.toMatchObject({ code: "database_permission" });
  });

  test("a tenant that does not exist is not one that spent nothing", async () => {
    await expect(report({ tenant: "nobody" })).rejects.toMatchObject({
      code: "tenant_not_found",
      tenant: "nobody",
    });
  });

  test("owners and analysts see all tenants by slug; one that was added by hand by id until its first roll-up", async () => {
    await using own = await openTestDatabase({ migrated: false });
    const { admin, schema } = own;
    const [owner, application, analyst] = ["owner", "application", "analyst"].map(
      (role) => `${schema}_${role}`,
    );
    const roles = [owner, application, analyst].join(", ");
    for (const role of [owner, application, analyst])
      await admin.query(`create role ${role} login password 'x'`);
    await admin.query(`create schema ${schema} authorization ${owner}`);
    const [asOwner, asApplication, asAnalyst] = await Promise.all(
      [owner, application, analyst].map((role) => openAs(own, role as string)),
    );
    try {
      if (!asOwner || !asApplication || !asAnalyst) throw new TypeError();
      await asOwner.migrate({ applicationRoles: [application as string], analystRoles: [analyst as string] });
      for (const [slug, cost] of [
        ["acme", 1],
        ["other", 2],
      ] as const) {
        await asApplication.tenants.create({ slug });
        await spend(asApplication, slug, [{ at: NOON, cost }]);
      }
      const { rows: known } = await admin.query(`select slug from ${schema}.usage_tenants order by slug`);
      expect(known.map(({ slug }) => slug)).toEqual(["acme", "default", "other"]);
      const costs = async (database: Database) => {
        const { rows, total } = await database.usage.report({ by: ["tenant"] }, context);
        expect(total.cost.total).toBe("3");
        return rows.map(({ group, cost }) => [group.tenant, cost.total]);
      };
      const byId = [
        [tenantOf("other").tenantId, "2"],
        [tenantOf("acme").tenantId, "1"],
      ];
      const bySlug = [
        ["other", "2"],
        ["acme", "1"],
      ];
      expect([await costs(asOwner), await costs(asAnalyst)]).toEqual([bySlug, bySlug]);
      await admin.query(`delete from ${schema}.usage_tenants`); // as if somebody had inserted both into `tenants`
      expect([await costs(asOwner), await costs(asAnalyst)]).toEqual([byId, byId]);
      for (const tenant of ["acme", "other"]) await asApplication.usage.rollUp({ tenant }, context);
      expect([await costs(asOwner), await costs(asAnalyst)]).toEqual([bySlug, bySlug]);
      const ofOne = await asAnalyst.usage.report({ tenant: "acme", by: ["tenant"] }, context);
      expect(callsOf(ofOne)).toEqual([["acme", 1]]);
      // Which tenants there are, analysts do not see.
      expect((await asAnalyst.usage.report({ tenant: "nobody" }, context)).total).toEqual(NOTHING);
      await expect(asApplication.usage.report({}, context)).rejects.toMatchObject({
        code: "database_permission",
      });
    } finally {
      for (const database of [asOwner, asApplication, asAnalyst]) await database?.close();
      await admin.query(`drop owned by ${roles} cascade; drop role ${roles}`);
    }
  });
});

function openAs({ ownerConnectionString, schema }: TestDatabase, role: string): Promise<Database> {
  const url = new URL(ownerConnectionString);
  url.username = role;
  url.password = "x";
  return openDatabase({ connectionString: url.href, schema });
}

describe("what cannot be asked", () => {
  test.each<[Record<string, unknown>, string]>([
    [{ form: "2026" }, "form"],
    [{ from: "yesterday" }, "from"],
    [{ from: "2026-02-30" }, "from"],
    [{ from: "2026-13" }, "from"],
    [{ from: "0000-01-01" }, "from"],
    [{ from: "2026-11-01T25:00" }, "from"],
    [{ to: Number.NaN }, "to"],
    [{ to: 1.5 }, "to"],
    [{ to: new Date(Number.NaN) }, "to"],
    [{ from: "2026-11-01", to: "2026-11-01" }, "to"],
    [{ from: "2026-11-01", to: 0 }, "to"],
    [{ timeZone: "Europe/Atlantis" }, "timeZone"],
    [{ timeZone: "+01:00" }, "timeZone"],
    [{ timeZone: "IST" }, "timeZone"],
    [{ timeZone: "" }, "timeZone"],
    [{ timeZone: 1 }, "timeZone"],
    [{ by: "model" }, "by"],
    [{ by: ["colour"] }, "by"],
    [{ by: ["dimension:"] }, "by"],
    [{ by: ["dimension:\0"] }, "by"],
    [{ by: ["model", "model"] }, "by"],
    [{ by: ["day", "week"] }, "by"],
    [{ where: { colour: "red" } }, "where.colour"],
    [{ from: "1970", to: "9999", compare: true }, "compare"],
    [{ where: { model: [] } }, "where.model"],
    [{ where: { model: 1 } }, "where.model"],
    [{ where: { model: "\0" } }, "where.model"],
    [{ where: { dimensions: { "\0": "x" } } }, "where.dimensions"],
    [{ where: { dimensions: { "": "x" } } }, "where.dimensions"],
    [{ where: { dimensions: ["team"] } }, "where.dimensions"],
    [{ where: { dimensions: null } }, "where.dimensions"],
    [{ where: { dimensions: { team: null } } }, "where.dimensions.team"],
    [{ by: ["model"], orderBy: { column: "provider" } }, "orderBy.column"],
    [{ by: ["model"], orderBy: { column: "model", direction: "up" } }, "orderBy.direction"],
    [{ by: ["model"], top: 0 }, "top"],
    [{ by: ["model"], top: 1.5 }, "top"],
    [{ by: ["day"], top: 1 }, "top"],
    [{ by: ["model"], cumulative: true }, "cumulative"],
    [{ by: ["day"], cumulative: 1 }, "cumulative"],
    [{ from: "2026", compare: true }, "compare"],
  ])("%j is refused by the name of the option", async (options, option) => {
    await expect(report({ tenant: "default", ...options } as UsageReportOptions)).rejects.toMatchObject({
      code: "invalid_option",
      option,
    });
  });

  test("a time zone that only JavaScript knows is refused too", async () => {
    // PostgreSQL has a copy of its own of the database of time zones.
    await expect(
      report({ tenant: "default", from: "2026", timeZone: "US/Pacific-New" }),
    ).rejects.toMatchObject({
      code: "invalid_option",
      option: "timeZone",
    });
  });
});
