import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, type UsageReportOptions, usageHtml } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { spend } from "./spending.ts";

/** Everything that a page could take for its own, and what turns the direction of text. */
const HOSTILE = `</script><script>alert(1)</script><img src=x onerror="alert('2')">&amp;'"\`</style>\u202e\u2066\u0000`;
const SHOWN =
  "&#60;/script&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#60;img src=x onerror=&#34;alert(&#39;2&#39;)&#34;&#62;&#38;amp;&#39;&#34;`&#60;/style&#62;\ufffd\ufffd";

let at: TestDatabase;

beforeAll(async () => {
  at = await openTestDatabase();
  await spend(
    at.database,
    "default",
    [
      { model: "large", at: "2026-11-02T00:00Z", cost: 3, input: 60, cacheRead: 40 },
      { model: "large", at: "2026-11-04T00:00Z", cost: 1, input: 100 },
      { model: "small", at: "2026-11-04T00:00Z", cost: 0.25 },
    ],
    { s: { cwd: "/srv/app" } },
  );
  await at.owner.tenants.create({ slug: "hostile" });
  const session = HOSTILE.replaceAll("\u0000", "");
  await spend(at.database, "hostile", [{ session, model: HOSTILE, at: "2026-11-02T00:00Z", cost: 1 }], {
    [session]: { cwd: session },
  });
  await at.owner.tenants.create({ slug: "empty" });
});
afterAll(() => at[Symbol.asyncDispose]());

const pageOf = (options: UsageReportOptions) => usageHtml(at.database.usage, options, context);
const NOVEMBER = { from: "2026-11", to: "2026-12" };
/** Texts of the cells of the rows of a table, heads first. */
function tableOf(page: string, caption: string): string[][] {
  const [, table = ""] = page.split(`<caption>${caption}</caption>`);
  return [...(table.split("</table>")[0] ?? "").matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = ""]) =>
    [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = ""]) => cell.replaceAll(/<[^>]*>/g, "")),
  );
}

test("a page shows the sums, the cost along time by model, and who spent it", async () => {
  const page = await pageOf({ tenant: "default", ...NOVEMBER });
  expect(page).toContain("<title>Usage of default: 1 Nov 2026 – 30 Nov 2026</title>");
  expect(page).toMatch(/<dt>Cost<\/dt><dd[^>]*>\$4\.25<\/dd>/);
  expect(page).toMatch(/<dt>Calls<\/dt><dd[^>]*>3<\/dd>/);
  expect(page).toMatch(/<dt>Cache-hit ratio<\/dt><dd[^>]*>20\.0%<\/dd>/);
  expect(page).toContain("Cost by day and model");

  const [heads, ...days] = tableOf(page, "Cost by model as a table");
  expect(heads).toEqual(["day", "large", "small", "total"]);
  expect(days).toHaveLength(30);
  expect(days.slice(0, 4)).toEqual([
    ["1 Nov 2026", "$0.00", "$0.00", "$0.00"],
    ["2 Nov 2026", "$3.00", "$0.00", "$3.00"],
    ["3 Nov 2026", "$0.00", "$0.00", "$0.00"],
    ["4 Nov 2026", "$1.00", "$0.25", "$1.25"],
  ]);
  expect(tableOf(page, "Cache-hit ratio as a table").slice(1, 5)).toEqual([
    ["1 Nov 2026", "–"],
    ["2 Nov 2026", "40.0%"],
    ["3 Nov 2026", "–"],
    ["4 Nov 2026", "0.0%"],
  ]);
  expect(tableOf(page, "Sessions by cost")).toEqual([
    ["session", "directory", "cost", "calls", "tokens"],
    ["s", "/srv/app", "$4.25", "3", "30"],
    ["total", "", "$4.25", "3", "30"],
  ]);
  expect(tableOf(page, "Cost by directory")[1]).toEqual(["/srv/app", "$4.25", "3", "30"]);
  expect(tableOf(page, "The report as a table").map((row) => row.slice(0, 3))).toEqual([
    ["provider", "model", "cost"],
    ["p", "large", "$4.00"],
    ["p", "small", "$0.25"],
    ["total", "", "$4.25"],
  ]);
});

test("the table is the report that was asked for, its unit of time that of the charts", async () => {
  const page = await pageOf({
    tenant: "default",
    ...NOVEMBER,
    by: ["week", "session"],
    where: { model: "large" },
  });
  expect(page).toContain("Cost by week and model");
  expect(page).toContain("<bdi>model: large</bdi>");
  expect(tableOf(page, "The report as a table").map((row) => row.slice(0, 3))).toEqual([
    ["week", "session", "cost"],
    ["week of 2 Nov 2026", "s", "$4.00"],
    ["total", "", "$4.00"],
  ]);
});

test("with both ends of the time, the sums stand beside those of the period before", async () => {
  const page = await pageOf({ tenant: "default", from: "2026-11-03", to: "2026-11-05" });
  expect(page).toMatch(/<dt>Cost<\/dt>.*?▼ 58\.3% from \$3\.00/);
  expect(page).toMatch(/<dt>Cache-hit ratio<\/dt>.*?▼ 40\.0 points from 40\.0%/);
  expect(await pageOf({ tenant: "default" })).not.toMatch(/class="change"/);
});

test.each([
  [{ from: "2026-11-02", to: "2026-11-03" }, "hour"],
  [NOVEMBER, "day"],
  [{ from: "2026-06", to: "2026-12" }, "week"],
  [{ from: "2020", to: "2027" }, "month"],
  [{}, "day"],
])("the time %o is drawn by %s", async (range, unit) => {
  expect(await pageOf({ tenant: "default", ...range })).toContain(`Cost by ${unit} and model`);
});

test("all tenants are compared, for who may see them", async () => {
  const page = await usageHtml(at.owner.usage, NOVEMBER, context);
  expect(page).toContain("<h1>Usage of all tenants</h1>");
  expect(tableOf(page, "Cost by tenant").map((row) => row[1])).toEqual(["cost", "$4.25", "$1.00", "$5.25"]);
  await expect(pageOf(NOVEMBER)).rejects.toMatchObject({ code: "database_permission" });
});

test("without usage the page says so", async () => {
  const page = await pageOf({ tenant: "empty", ...NOVEMBER });
  expect(page).toContain("Nothing was spent in this time.");
  expect(page).not.toContain("<svg");
});

describe("whatever names contain", () => {
  test("is shown as text", async () => {
    const page = await pageOf({
      tenant: "hostile",
      ...NOVEMBER,
      where: { provider: ["p", HOSTILE.slice(0, -1)] },
    });
    expect(page).toContain(`<bdi>${SHOWN}`);
    expect(page).toContain(`or ${SHOWN}`);
    for (const mark of ["<script", "</script", "<img", "\u202e", "\u2066", "\u0000"])
      expect(page).not.toContain(mark);
    expect(page.match(/<\/style>/g)).toHaveLength(1);
  });

  test("stays within its attribute", async () => {
    const page = await pageOf({ tenant: "hostile", ...NOVEMBER });
    for (const [tag] of page.replaceAll(/<style>.*?<\/style>/gs, "").matchAll(/<\w[^>]*>/g)) {
      expect(tag).toMatch(/^<\w+( ([\w-]+="[^"<]*"|hidden))*\/?>$/);
    }
  });
});

test("a page runs nothing, loads nothing and links nowhere", async () => {
  const page = await pageOf({ tenant: "default", ...NOVEMBER });
  expect(page).toContain(`content="default-src 'none'; style-src 'unsafe-inline'`);
  expect(page).not.toMatch(/<script|<link|<img|<iframe|<a |src=|href=|url\(|@import|@font-face|https?:/);
});

test("each drawing has a title and a table, and each table a caption and heads", async () => {
  const page = await pageOf({ tenant: "default", ...NOVEMBER });
  const drawings = page.match(/<svg [^>]*>/g) ?? [];
  expect(drawings).toHaveLength(2);
  for (const drawing of drawings) expect(drawing).toMatch(/role="img" aria-label="[^"]+"/);
  expect(page.match(/<details>/g)).toHaveLength(2);
  const tables = page.match(/<table>.*?<\/table>/gs) ?? [];
  expect(tables).toHaveLength(5);
  for (const table of tables)
    expect(table).toMatch(/<caption>.+<\/caption>.*<th scope="col".*<th scope="row"/s);
  expect(page).toContain('<html lang="en">');
});
