import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export const ROOT = new URL("../../", import.meta.url).pathname;

/** Relative to the root. */
export const PAGES = [
  "README.md",
  ...(await readdir(join(ROOT, "docs"))).filter((file) => file.endsWith(".md")).map((file) => `docs/${file}`),
];

export interface Block {
  readonly page: string;
  /** Of its first line of code, counted from 1. */
  readonly line: number;
  readonly code: string;
  /** The paragraph before it. */
  readonly leadIn: string;
}

/** The blocks of code of one language, in their order. */
export async function blocksOf(page: string, language: "ts" | "sql"): Promise<Block[]> {
  const text = await readPage(page);
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map((match) => {
    const before = text.slice(0, match.index);
    const leadIn = before.trimEnd().split("\n\n").at(-1) ?? "";
    return { page, line: before.split("\n").length + 1, code: match[1] ?? "", leadIn };
  });
}

export function readPage(page: string): Promise<string> {
  return readFile(join(ROOT, page), "utf8");
}

/** The rows of a page's tables, each with the heading that it stands under; without heads and rules. */
export async function rowsOf(page: string): Promise<{ heading: string; cells: string[] }[]> {
  const lines = (await readPage(page)).split("\n");
  const rows: { heading: string; cells: string[] }[] = [];
  let heading = "";
  for (const [index, line] of lines.entries()) {
    if (line.startsWith("#")) heading = line.replace(/^#+ /, "");
    if (!line.startsWith("|") || isRule(line) || isRule(lines[index + 1] ?? "")) continue;
    const cells = line.slice(1, line.lastIndexOf("|")).split("|");
    rows.push({ heading, cells: cells.map((cell) => cell.trim()) });
  }
  return rows;
}

function isRule(line: string): boolean {
  return /^\|[\s|:-]+\|$/.test(line);
}

/** What stands in backticks. */
export function codesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? "");
}
