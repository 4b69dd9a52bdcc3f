import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type UsageReport, usageChart } from "../../src/index.ts";
import { madeReport, row } from "./made-report.ts";

const cost = (total: string) => ({ cost: { total } });
const day = (date: string, model: string, total: string) => row({ day: date, model }, cost(total));
const at = (time: string) => Date.parse(time);
/** What stands before the bars. */
const bucketsOf = (report: UsageReport) =>
  (usageChart(report).split("\n\n").at(-1) ?? "").split("\n").map((line) => line.split(" ")[0]);

test("a bar for each day, in parts by group, as wide as the terminal", () => {
  const report = madeReport(
    ["day", "model"],
    [
      day("2026-11-01", "small", "1"),
      day("2026-11-01", "large", "3"),
      day("2026-11-02", "large", "8"),
      day("2026-11-04", "small", "2"),
    ],
  );
  expect(usageChart(report, { width: 40 }).split("\n")).toEqual([
    "Cost by day and model (UTC)",
    "",
    "  █ large  $11.00",
    "  ▓ small   $3.00",
    "",
    "2026-11-01  ████████▓▓▓            $4.00",
    "2026-11-02  █████████████████████  $8.00",
    "2026-11-03                         $0.00",
    "2026-11-04  ▓▓▓▓▓                  $2.00",
  ]);
});

test("by time alone bars end within a column, and there is no legend", () => {
  const report = madeReport(
    ["month"],
    [row({ month: "2026-11" }, cost("3")), row({ month: "2026-12" }, cost("1"))],
  );
  expect(usageChart(report, { width: 40 }).split("\n")).toEqual([
    "Cost by month (UTC)",
    "",
    `2026-11  ${"█".repeat(24)}  $3.00`,
    `2026-12  ${"█".repeat(8)}${" ".repeat(16)}  $1.00`,
  ]);
});

test("without Unicode everything is ASCII; without colour nothing is a code", () => {
  const rows = Array.from({ length: 9 }, (_, index) =>
    day("2026-11-01", `model ${index} ${"x".repeat(60)}`, "1"),
  );
  const text = usageChart(madeReport(["day", "model"], rows), { unicode: false });
  expect(text).toMatch(/^[ -~\n]*$/);
  expect(text).toMatch(/#+=+\++o+-+\.+ /);
});

test("with colour each group has its own, and the same characters", () => {
  const report = madeReport(["day", "model"], [day("2026-11-01", "a", "2"), day("2026-11-01", "b", "1")]);
  const colored = usageChart(report, { color: true });
  expect(colored).toContain("\u001b[36m█\u001b[39m a");
  expect(colored).toContain("\u001b[35m▓\u001b[39m b");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what colours are made of
  expect(colored.replaceAll(/\u001b\[\d+m/g, "")).toBe(usageChart(report));
});

test("beyond five groups the smallest are one, together with what the report left over", () => {
  const rows = ["a", "b", "c", "d", "e", "f", "g"].map((model, index) =>
    day("2026-11-01", model, String(9 - index)),
  );
  rows.push(row({ day: "2026-11-01", model: null }, cost("0.5"), { isRemainder: true }));
  const lines = usageChart(madeReport(["day", "model"], rows)).split("\n");
  expect(lines.slice(2, 9)).toEqual([
    "  █ a           $9.00",
    "  ▓ b           $8.00",
    "  ▒ c           $7.00",
    "  ░ d           $6.00",
    "  ═ e           $5.00",
    "  · all others  $7.50",
    "",
  ]);
});

test("sums are exact, and what is not zero does not look like it", () => {
  const many = Array.from({ length: 10 }, (_, index) => day("2026-11-01", `m${index}`, "0.1"));
  expect(usageChart(madeReport(["day", "model"], many))).toMatch(/ {2}\$1\.00$/);
  const unequal = [day("2026-11-01", "a", "1000"), day("2026-11-02", "a", "0.004")];
  expect(
    usageChart(madeReport(["day", "model"], unequal))
      .split("\n")
      .at(-1),
  ).toMatch(/^2026-11-02 {2}▏ .*<\$0\.01$/);
});

test("what adjustments take below zero has no bar, but its sum", () => {
  const rows = [day("2026-11-01", "a", "4"), day("2026-11-02", "a", "-2")];
  expect(
    usageChart(madeReport(["day", "model"], rows))
      .split("\n")
      .at(-1),
  ).toMatch(/^2026-11-02 +-\$2\.00$/);
});

test("other columns count calls and tokens, and show ratios", () => {
  const report = madeReport(["day"], [row({ day: "2026-11-01" }, { calls: 1_234, cacheHitRatio: 0.5 })]);
  expect(usageChart(report, { column: "calls" })).toMatch(
    /^Calls by day \(UTC\)\n\n2026-11-01 {2}█+ {2}1,234$/,
  );
  expect(usageChart(report, { column: "cacheHitRatio" })).toMatch(/^Cache-hit ratio by day.*█ {2}50\.0 %$/s);
});

test("running sums stay where nothing is added", () => {
  const rows = [day("2026-11-01", "a", "1"), day("2026-11-02", "b", "5"), day("2026-11-04", "a", "3")];
  const lines = usageChart(madeReport(["day", "model"], rows, { isCumulative: true })).split("\n");
  expect(lines[0]).toBe("Cost by day and model (UTC), running sum");
  expect(lines.slice(2, 4)).toEqual(["  █ b  $5.00", "  ▓ a  $3.00"]);
  expect(lines.slice(-4).map((line) => line.split(" ").at(-1))).toEqual(["$1.00", "$6.00", "$6.00", "$8.00"]);
});

test("without usage it says so", () => {
  expect(usageChart(madeReport(["day"]))).toBe("No usage.");
});

test("names can neither move the cursor nor add lines", () => {
  const report = madeReport(["day", "model"], [day("2026-11-01", "a\u001b[2J\u202e\nb", "1")]);
  expect(usageChart(report)).toContain("  █ a\ufffd[2J\ufffd b  $1.00\n");
});

test("no line is wider than the terminal, whatever the names and sums", () => {
  const name = fc.stringMatching(/^[a-z模é ]{1,60}$/);
  const amount = fc.integer({ min: -1_000, max: 1_000_000_000 }).map((cents) => String(cents / 100));
  const date = fc.integer({ min: 1, max: 9 }).map((number) => `2026-11-0${number}`);
  const rows = fc.uniqueArray(fc.tuple(date, name, amount), {
    selector: ([day, model]) => day + model,
    maxLength: 30,
  });
  const widthOf = (line: string) => Array.from(line).length + (line.match(/模/g) ?? []).length;
  fc.assert(
    fc.property(rows, fc.integer({ min: 40, max: 200 }), fc.boolean(), (groups, width, unicode) => {
      const report = madeReport(
        ["day", "model"],
        groups.map((group) => day(...group)),
      );
      const lines = usageChart(report, { width, unicode }).split("\n");
      expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(width);
    }),
  );
});

describe("units of time", () => {
  test("run from the beginning of the report to its end", () => {
    const rows = [row({ week: "2026-11-02" }, cost("1"))];
    const range = {
      from: at("2026-11-01T00:00+01:00"),
      to: at("2026-11-16T00:00+01:00"),
      timeZone: "Europe/Berlin",
    };
    expect(bucketsOf(madeReport(["week"], rows, range))).toEqual(["2026-10-26", "2026-11-02", "2026-11-09"]);
    expect(
      bucketsOf(madeReport(["month"], [row({ month: "2026-11" }, cost("1"))], { ...range, to: null })),
    ).toEqual(["2026-11"]);
  });

  test("cross the end of a year", () => {
    const rows = ["2026-12-30", "2027-01-02"].map((date) => row({ day: date }, cost("1")));
    expect(bucketsOf(madeReport(["day"], rows))).toEqual([
      "2026-12-30",
      "2026-12-31",
      "2027-01-01",
      "2027-01-02",
    ]);
    const months = ["2026-11", "2027-02"].map((month) => row({ month }, cost("1")));
    expect(bucketsOf(madeReport(["month"], months))).toEqual(["2026-11", "2026-12", "2027-01", "2027-02"]);
  });

  test.each([
    [
      "is there twice where clocks are set back",
      "Europe/Berlin",
      [
        "2026-10-25T01:00+02:00",
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
      ],
    ],
    [
      "is missing where clocks are set forward",
      "Europe/Berlin",
      ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"],
    ],
    [
      "takes an hour and a half where clocks are set back by half an hour",
      "Australia/Lord_Howe",
      [
        "2026-04-05T00:00+11:00",
        "2026-04-05T01:00+11:00",
        "2026-04-05T02:00+10:30",
        "2026-04-05T03:00+10:30",
      ],
    ],
    [
      "begins with the hour of a zone that is off by three quarters",
      "Asia/Kathmandu",
      ["2026-11-01T23:00+05:45", "2026-11-02T00:00+05:45"],
    ],
  ])("an hour %s", (_, timeZone, hours) => {
    const rows = [hours[0], hours.at(-1)].map((hour = "") => row({ hour }, cost("1")));
    expect(bucketsOf(madeReport(["hour"], rows, { timeZone }))).toEqual(hours);
    const range = { timeZone, from: at(hours[0] ?? "") + 60_000, to: at(hours.at(-1) ?? "") + 60_000 };
    expect(bucketsOf(madeReport(["hour"], rows, range))).toEqual(hours);
  });
});

test.each([
  ["without a unit of time", madeReport(["model"]), {}, "by"],
  ["of a ratio by group", madeReport(["day", "model"]), { column: "costPerCall" }, "column"],
  ["of a million hours", madeReport(["hour"], [], { from: 0, to: 3.6e12 }), {}, "by"],
] as const)("a chart %s rejects", (_, report, options, option) => {
  expect(() => usageChart(report, options)).toThrow(
    expect.objectContaining({ code: "invalid_option", option }),
  );
});
