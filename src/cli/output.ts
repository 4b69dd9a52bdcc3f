import { styleText } from "node:util";
import Table from "cli-table3";
import { visible } from "../contract/visible.ts";
import { fitted, GAP, type Shrinking } from "./fit.ts";

export { visible };

export interface Column<TRow> {
  head: string;
  cell: (row: TRow) => string;
  align?: "left" | "right";
  /** On a terminal that is too narrow for the table. */
  shrink?: Shrinking;
}

/** A table takes time with the square of its rows. */
const ROWS_PER_TABLE = 500;

/**
 * Prints rows as a table for people; very many as several, each with its heads. On a pipe no cell is shortened and
 * nothing is bold.
 */
export function printTable<TRow>(columns: readonly Column<TRow>[], rows: readonly TRow[]): void {
  const isTerminal = process.stdout.isTTY === true;
  const [heads = [], ...cells] = fitted(
    [columns.map(({ head }) => head), ...rows.map((row) => columns.map(({ cell }) => visible(cell(row))))],
    columns.map(({ shrink }) => shrink),
    // Some terminals do not know their width.
    (isTerminal && process.stdout.columns) || Infinity,
  );
  for (let start = 0; start === 0 || start < cells.length; start += ROWS_PER_TABLE) {
    const table = new Table({
      head: heads.map((head) => (isTerminal ? styleText("bold", head) : head)),
      colAligns: columns.map(({ align }) => align ?? "left"),
      style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": GAP },
      chars: Object.fromEntries(BORDERS.map((part) => [part, ""])),
    });
    for (const row of cells.slice(start, start + ROWS_PER_TABLE)) table.push(row);
    print(
      table
        .toString()
        .split("\n")
        .map((line) => line.trimEnd())
        .join("\n"),
    );
  }
}

const BORDERS = [
  "top",
  "top-mid",
  "top-left",
  "top-right",
  "bottom",
  "bottom-mid",
  "bottom-left",
  "bottom-right",
  "left",
  "left-mid",
  "mid",
  "mid-mid",
  "right",
  "right-mid",
  "middle",
] as const;

export function printJson(data: unknown): void {
  print(jsonText(data));
}

/** One event of several, on one line. */
export function printJsonLine(data: unknown): void {
  print(jsonText(data, 0));
}

/** JSON on lines of its own. JSON itself escapes only some of the characters that a terminal would obey. */
export function jsonText(data: unknown, indent = 2): string {
  return JSON.stringify(data, null, indent).replaceAll(
    /[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Data, on standard output. */
export function print(text = ""): void {
  process.stdout.write(`${text}\n`);
}

/** What a person should know and a pipe should not get. */
export function tell(text: string): void {
  process.stderr.write(`${visible(text)}\n`);
}

export function heading(text: string): string {
  return process.stdout.isTTY === true ? styleText("bold", text) : text;
}

/** Stored text on one line of a terminal: nothing in it can move the cursor or turn the writing direction. */
export function oneLine(text: string, maxLength = 60): string {
  const line = visible(text.replaceAll(/\s+/g, " ")).trim();
  const characters = Array.from(line);
  return characters.length <= maxLength ? line : `${characters.slice(0, maxLength - 1).join("")}…`;
}

export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** In decimal units, with three digits or so. */
export function formatBytes(bytes: number): string {
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const amount = bytes / 1000 ** unit;
  return `${amount.toFixed(unit === 0 || amount >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** In hours, minutes and seconds. */
export function formatDuration(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  if (hours > 0) return `${formatCount(hours)} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

/** US dollars with at least four digits after the point, and as many as a small amount needs. */
export function formatCost(cost: number | string): string {
  const dollars = Number(cost);
  const size = Math.abs(dollars);
  const digits = size !== 0 && size < 0.001 ? 6 : 4;
  const text = size.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${dollars < 0 ? "-" : ""}$${text}`;
}

/** Milliseconds since the epoch, in UTC, to the minute. */
export function formatTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? "?" : date.toISOString().slice(0, 16).replace("T", " ");
}

/** The telling end of a long id; time-ordered ids of one session begin alike. */
export function shortId(id: string): string {
  return id.length <= 12 ? visible(id) : `…${visible(id.slice(-8))}`;
}
