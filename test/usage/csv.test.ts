import fc from "fast-check";
import { expect, test } from "vitest";
import { usageCsv } from "../../src/index.ts";
import { madeReport, row, sums } from "./made-report.ts";

/** The records of a text, as RFC 4180 has them. */
function parsed(csv: string): string[][] {
  const records: string[][] = [[]];
  let end = 0;
  for (const { 0: cell, 1: quoted, 2: plain, 3: separator, index } of csv.matchAll(CELL)) {
    expect(index).toBe(end);
    end += cell.length;
    records.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? "");
    if (separator === "\r\n") records.push([]);
  }
  expect(end).toBe(csv.length);
  return records.slice(0, -1);
}

const CELL = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g;

test.each([
  ["plain", "plain"],
  ["a,b", '"a,b"'],
  ['say "hi"', '"say ""hi"""'],
  ["two\nlines", '"two\nlines"'],
  ["two\r\nlines", '"two\r\nlines"'],
  ["=1+1", "'=1+1"],
  ['=HYPERLINK("http://x","y")', `"'=HYPERLINK(""http://x"",""y"")"`],
  ["+1", "'+1"],
  ["-1", "'-1"],
  ["@SUM(A1)", "'@SUM(A1)"],
  ["\t=1", "'\t=1"],
  ["\r=1", `"'\r=1"`],
  ["1=1", "1=1"],
  ["", ""],
])("the name %j is written as %j", (name, written) => {
  const csv = usageCsv(madeReport(["day", "model"], [row({ day: "2026-11-01", model: name })]));
  const record = csv.slice(csv.indexOf("\r\n") + 2);
  expect(record.slice(0, record.indexOf(",false,"))).toBe(`2026-11-01,${written}`);
});

test("names of any text come back, with an apostrophe before what begins like a formula", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" }), { minLength: 1 }), (names) => {
      const rows = names.map((model) => row({ model, cwd: `${model}/` }, { calls: 7 }));
      const [header, ...records] = parsed(usageCsv(madeReport(["model", "cwd"], rows)));
      expect(header?.slice(0, 4)).toEqual(["model", "cwd", "is_remainder", "calls"]);
      const safe = (text: string) => (/^[=+\-@\t\r＝＋－＠]/.test(text) ? `'${text}` : text);
      expect(records.map((cells) => cells.slice(0, 4))).toEqual(
        names.map((name) => [safe(name), safe(`${name}/`), "false", "7"]),
      );
      for (const cells of records) expect(cells).toHaveLength(header?.length ?? 0);
    }),
  );
});

test("numbers stay numbers, also negative ones, and what is null is empty", () => {
  const cost = { total: "-0.25", input: "1000000000000.000000000000000000001" };
  const csv = usageCsv(
    madeReport(["model"], [row({ model: null }, { cost, calls: -0 }, { isRemainder: true })]),
  );
  const [header = [], cells = []] = parsed(csv);
  const value = (name: string) => cells[header.indexOf(name)];
  expect(value("model")).toBe("");
  expect(value("is_remainder")).toBe("true");
  expect(value("cost_total")).toBe("-0.25");
  expect(value("cost_input")).toBe("1000000000000.000000000000000000001");
  expect(value("cache_hit_ratio")).toBe("");
});

test("the period before follows, column by column", () => {
  const compared = row({ model: "m" }, { calls: 2 }, { previous: sums({ calls: 1 }) });
  const total = { ...sums({ calls: 2 }), previous: sums({ calls: 1 }) };
  const [header = [], cells = []] = parsed(usageCsv(madeReport(["model"], [compared], { total })));
  expect(cells[header.indexOf("calls")]).toBe("2");
  expect(cells[header.indexOf("previous_calls")]).toBe("1");
  expect(header.filter((name) => name.startsWith("previous_"))).toHaveLength((header.length - 2) / 2);
});

test("a report without keys has its total as its only row", () => {
  const [header = [], ...records] = parsed(usageCsv(madeReport([], [], { total: sums({ calls: 3 }) })));
  expect(header[0]).toBe("calls");
  expect(records).toHaveLength(1);
  expect(records[0]?.[0]).toBe("3");
});
