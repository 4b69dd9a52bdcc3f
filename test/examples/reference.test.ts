/** Pages that list what the sources define must list all of it. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { codesIn, PAGES, ROOT, rowsOf } from "./pages.ts";

const source = (path: string) => readFile(join(ROOT, path), "utf8");
const all = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found ?? "");

test("docs/schema.md describes every table and docs/analytics.md every view with every column, and no other", async () => {
  const types = await source("src/postgres/schema.generated.ts");
  const columnsOf = new Map(
    [...types.matchAll(/^export interface (\w+) \{\n(.*?)^\}/gms)].map(([, name, body = ""]) => [
      name,
      all(body, /^ {2}(\w+):/gm),
    ]),
  );
  const tables = [...(types.split("export interface DB ")[1] ?? "").matchAll(/^ {2}(\w+): (\w+);/gm)];
  const defined = tables.map(([, table, name]) => [table, columnsOf.get(name)?.toSorted()]);
  expect(defined.length).toBeGreaterThan(5);

  const rows = [...(await rowsOf("docs/schema.md")), ...(await rowsOf("docs/analytics.md"))];
  const described = defined.map(([table]) => {
    const columns = rows
      .filter(({ heading }) => heading === `\`${table}\``)
      .flatMap(({ cells }) => codesIn(cells[0] ?? ""));
    return [table, columns.toSorted()];
  });
  expect(described).toEqual(defined);
  const overview = rows
    .filter(({ heading }) => heading === "Tables" || heading === "Views")
    .flatMap(({ cells }) => codesIn(cells[0] ?? ""));
  expect(overview.toSorted()).toEqual(defined.map(([table]) => table));
});

test("docs/commits.md tells the round trips that the tests count", async () => {
  const text = await source("test/postgres/round-trips.test.ts");
  const counted = [...text.matchAll(/^ {2}\[\s*"([^"]+)",\s*(\d+),/gm)].map(([, what, turns]) => [
    what,
    turns,
  ]);
  expect(counted.length).toBeGreaterThan(20);
  const rows = (await rowsOf("docs/commits.md")).filter(({ heading }) => heading === "Round trips");
  const told = rows.flatMap(({ cells: [operations = "", turns] }) =>
    operations.split(", ").map((operation) => [operation.replaceAll("`", ""), turns]),
  );
  expect(told.toSorted()).toEqual(counted.toSorted());
});

test("docs/programs.md lists every error with its class", async () => {
  const sources = await Promise.all(
    ["src/contract/errors.ts", "src/postgres/errors.ts", "src/usage/errors.ts"].map(source),
  );
  const classes = sources.flatMap((text) =>
    [...text.matchAll(/^export class (\w+) .*?readonly code = "(\w+)"/gms)].map(([, name, code]) => [
      code,
      name,
    ]),
  );
  expect(classes.length).toBeGreaterThan(30);
  const rows = (await rowsOf("docs/programs.md")).filter(({ heading }) => heading === "Errors");
  const listed = rows.map(({ cells }) => [codesIn(cells[0] ?? ""), codesIn(cells[1] ?? "")]);
  for (const [code, name] of classes) expect(listed).toContainEqual([[code], [name]]);
  for (const { cells } of rows) expect(cells.every((cell) => cell !== "")).toBe(true);
});

test("docs/verify.md lists every check", async () => {
  const text = await source("src/postgres/verify.ts");
  const checks = all(text.split("export type VerifyCheck =")[1]?.split(";")[0] ?? "", /"(\w+)"/g);
  expect(checks.length).toBeGreaterThan(10);
  const rows = (await rowsOf("docs/verify.md")).filter(({ heading }) => heading === "What is checked");
  expect(rows.flatMap(({ cells }) => codesIn(cells[0] ?? ""))).toEqual(expect.arrayContaining(checks));
});

test("docs/dependencies.md has a line for every dependency", async () => {
  const { dependencies, optionalDependencies } = JSON.parse(await source("package.json"));
  const rows = await rowsOf("docs/dependencies.md");
  const listed = rows.flatMap(({ cells }) => codesIn(cells[0] ?? ""));
  expect(listed.toSorted()).toEqual(Object.keys({ ...dependencies, ...optionalDependencies }).toSorted());
});

test.each([...PAGES, "CONTRIBUTING.md"])("the links of %s lead somewhere", async (page) => {
  const links = all(await source(page), /\]\((?!https?:)([^)]+)\)/g);
  for (const link of links) {
    const { pathname, hash } = new URL(link, `file:///${page}`);
    const path = pathname.slice(1) || page;
    expect(existsSync(join(ROOT, path)), link).toBe(true);
    if (hash === "") continue;
    const headings = all(await source(path), /^#+ (.*)$/gm);
    const anchors = headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w -]/g, "")
        .replaceAll(" ", "-"),
    );
    expect(anchors, link).toContain(hash.slice(1));
  }
});
