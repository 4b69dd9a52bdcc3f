import { expect, test } from "vitest";
import { renderTree } from "../../src/cli/tree.ts";
import type { Entry } from "../../src/index.ts";

const step = (id: number, parent: number | null): Entry => ({
  type: "custom",
  customType: "step",
  id: String(id),
  parentId: parent === null ? null : String(parent),
  seq: id + 1,
  timestamp: 0,
});
const render = (entries: Entry[]) => [...renderTree(entries, [], new Map())];
const leadOf = (line: string | undefined) => line?.replace(/ ?\d+ {2}1970.*$/, "");

test("an entry may have more children than arguments fit on the call stack", () => {
  const lines = render(Array.from({ length: 200_000 }, (_, id) => step(id, id === 0 ? null : 0)));
  expect(lines).toHaveLength(200_000);
  expect(leadOf(lines[1])).toBe("├─");
  expect(leadOf(lines.at(-1))).toBe("└─");
});

test("a session that forks at each of 10,000 turns stays readable", () => {
  const turns = Array.from({ length: 10_000 }, (_, turn) => {
    const parent = turn === 0 ? null : 2 * turn - 2;
    return [step(2 * turn, parent), step(2 * turn + 1, parent)];
  });
  const lines = render(turns.flat());
  expect(lines).toHaveLength(20_000);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(120);
  expect(leadOf(lines[2])).toBe("│  │  ├─");
  expect(leadOf(lines[5_000])).toMatch(/^….*├─$/);
});

test("ways on from one entry stand in one column, also where the indent is cut off", () => {
  const turns = Array.from({ length: 40 }, (_, turn) => {
    const parent = turn === 0 ? null : 2 * turn - 2;
    return [step(2 * turn, parent), step(2 * turn + 1, parent)];
  });
  const columns = new Map(
    render(turns.flat()).map((line) => [/(\d+) {2}1970/.exec(line)?.[1], line.search(/\d/)]),
  );
  for (let turn = 0; turn < 40; turn++)
    expect(columns.get(`${2 * turn}`)).toBe(columns.get(`${2 * turn + 1}`));
});
