import fc from "fast-check";
import { parquetMetadata, parquetReadObjects, type SchemaElement } from "hyparquet";
import { describe, expect, test } from "vitest";
import { type UsageReport, usageParquet } from "../../src/index.ts";
import { madeReport, row, sums } from "./made-report.ts";

/** What a reader finds in the file; decimals as exact texts, which the library would turn into doubles. */
async function readBack(report: UsageReport) {
  const { buffer } = Uint8Array.from(await usageParquet(report));
  const metadata = parquetMetadata(buffer);
  const schema: SchemaElement[] = metadata.schema.map(
    ({ converted_type, logical_type, ...element }): SchemaElement =>
      converted_type === "DECIMAL"
        ? element
        : { ...element, ...(converted_type && { converted_type }), ...(logical_type && { logical_type }) },
  );
  const rows = await parquetReadObjects({ file: buffer, metadata: { ...metadata, schema } });
  const decimals = metadata.schema.filter(({ converted_type }) => converted_type === "DECIMAL");
  for (const found of rows) {
    for (const { name, scale = 0 } of decimals) found[name] = decimalOf(found[name], scale);
  }
  const about = metadata.key_value_metadata?.find(({ key }) => key === "pi_sessions.report")?.value ?? "";
  return { rows, schema: metadata.schema.slice(1), about: JSON.parse(about) };
}

/** Of a big-endian integer in two's complement. */
function decimalOf(bytes: Uint8Array | null, scale: number): string | null {
  if (bytes === null) return null;
  const units = BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString("hex")}`));
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, "0");
  const text = `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, "");
  return units < 0n ? `-${text}` : text;
}

test("a file holds the rows of the report: keys, counts and money, each as what it is", async () => {
  const by = ["day", "model", "entryType", "dimension:team"] as const;
  const group = { day: "2026-11-01", model: 'a "b", c\nd', entryType: "message", "dimension:team": null };
  const { rows, schema, about } = await readBack(
    madeReport(
      [...by],
      [
        row(group, {
          ...{ calls: 3, input: 1, output: 2, cacheRead: 3, cacheWrite: 4, cacheWrite1h: 5, reasoning: 6 },
          ...{ totalTokens: Number.MAX_SAFE_INTEGER, unpricedCalls: 1, cacheHitRatio: 0.375 },
          ...{ costPerCall: "0.033333333333", adjustments: { rows: 1, cost: "-0.1" } },
          cost: {
            input: "0.1",
            output: "0.30000000000000004",
            cacheRead: "1",
            cacheWrite: "-2.5",
            total: "1",
          },
        }),
        row({ day: "2026-11-02", model: null }, {}, { isRemainder: true }),
      ],
    ),
  );
  expect(rows).toEqual([
    {
      ...{ day: new Date("2026-11-01"), model: group.model, entryType: "message", "dimension:team": null },
      ...{ is_remainder: false, calls: 3n, input: 1n, output: 2n, cache_read: 3n, cache_write: 4n },
      ...{ cache_write_1h: 5n, reasoning: 6n, total_tokens: BigInt(Number.MAX_SAFE_INTEGER) },
      ...{ cost_input: "0.1", cost_output: "0.30000000000000004", cost_cache_read: "1" },
      ...{ cost_cache_write: "-2.5", cost_total: "1", adjustment_rows: 1n, adjustment_cost: "-0.1" },
      ...{ cache_hit_ratio: 0.375, cost_per_call: "0.033333333333", unpriced_calls: 1n },
    },
    expect.objectContaining({
      ...{ day: new Date("2026-11-02"), model: null, is_remainder: true },
      ...{ cost_total: "0", cache_hit_ratio: null, cost_per_call: null },
    }),
  ]);
  const typeOf = (name: string) => schema.find((element) => element.name === name);
  expect(typeOf("day")).toMatchObject({ type: "INT32", converted_type: "DATE" });
  expect(typeOf("model")).toMatchObject({ type: "BYTE_ARRAY", converted_type: "UTF8" });
  expect(typeOf("calls")).toMatchObject({ type: "INT64" });
  expect(typeOf("cost_total")).toMatchObject({ converted_type: "DECIMAL", precision: 38, scale: 24 });
  expect(about).toEqual({ from: null, to: null, timeZone: "UTC", by, isCumulative: false });
});

test.each([
  ["hour", "2026-11-01T01:00+01:00", "2026-11-01T00:00Z"],
  ["week", "2026-10-26", "2026-10-26"],
  ["month", "2026-11", "2026-11-01"],
] as const)("%s is a column of times", async (unit, label, time) => {
  const { rows } = await readBack(madeReport([unit], [row({ [unit]: label })]));
  expect(rows).toEqual([expect.objectContaining({ [unit]: new Date(time) })]);
});

test("with compare, the sums of the period before follow, null where there were none", async () => {
  const { rows, about } = await readBack(
    madeReport(
      ["model"],
      [
        row({ model: "a" }, { calls: 2 }, { previous: sums({ calls: 1, cost: { total: "0.7" } }) }),
        row({ model: "b" }, { calls: 4 }),
      ],
      { from: 10, to: 20, previous: { from: 0, to: 10 } },
    ),
  );
  expect(rows).toMatchObject([
    { model: "a", calls: 2n, previous_calls: 1n, previous_cost_total: "0.7" },
    { model: "b", calls: 4n, previous_calls: null, previous_cost_total: null },
  ]);
  expect(about).toMatchObject({ from: 10, to: 20, previous: { from: 0, to: 10 } });
});

test("a report without keys has its total as its only row", async () => {
  const total = sums({ calls: 7, cost: { total: "12.5" } });
  expect((await readBack(madeReport([], [], { total }))).rows).toMatchObject([
    { calls: 7n, cost_total: "12.5" },
  ]);
});

test("a report without rows is a file without rows, with the same columns", async () => {
  const empty = await readBack(madeReport(["day", "model"]));
  const other = await readBack(madeReport(["day", "model"], [row({ day: "2026-11-01", model: "a" })]));
  expect(empty.rows).toEqual([]);
  expect(empty.schema).toEqual(other.schema);
});

describe("money", () => {
  const amounts = (costs: string[]) =>
    madeReport(
      ["model"],
      costs.map((total, index) => row({ model: `m${index}` }, { cost: { total } })),
    );

  test("of any size and either sign comes back to the last digit", async () => {
    const amount = fc
      .tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.integer({ min: 17, max: 26 }))
      .map(([units, scale]) => {
        const digits = String(units < 0n ? -units : units).padStart(scale + 1, "0");
        const text = `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, "");
        return units < 0n && text !== "0" ? `-${text}` : text;
      })
      .filter((text) => /^-?\d{1,12}(\.|$)/.test(text));
    await fc.assert(
      fc.asyncProperty(fc.array(amount, { minLength: 1, maxLength: 20 }), async (costs) => {
        const { rows } = await readBack(amounts(costs));
        expect(rows.map(({ cost_total }) => cost_total)).toEqual(costs);
      }),
      { numRuns: 200 },
    );
  });

  test("finer than usual takes a larger scale", async () => {
    const { rows, schema } = await readBack(amounts(["0.0000000000000000000000000003", "1"]));
    expect(rows.map(({ cost_total }) => cost_total)).toEqual(["0.0000000000000000000000000003", "1"]);
    expect(schema.find(({ name }) => name === "cost_total")).toMatchObject({ precision: 38, scale: 28 });
    expect(schema.find(({ name }) => name === "cost_input")).toMatchObject({ precision: 38, scale: 24 });
  });

  test.each([
    ["that is too large", ["99999999999999.9", "100000000000000"], "100000000000000"],
    ["that is too fine beside a large one", [`0.${"0".repeat(29)}1`, "123456789"], "123456789"],
  ])("%s rejects, and is not rounded", async (_, costs, amount) => {
    await expect(usageParquet(amounts(costs))).rejects.toMatchObject({
      ...{ code: "parquet_precision", column: "cost_total", amount },
    });
  });
});
