import type { UsageGroup, UsageReport, UsageSums } from "../postgres/usage-report.ts";
import { USAGE_TIME_UNITS, type UsageKey } from "../postgres/usage-report-options.ts";
import { keyName, OTHERS } from "../usage/group-name.ts";
import { type Column, formatCost, formatCount, oneLine, print, printTable } from "./output.ts";

/** A row of the report, or its total. */
type Line = UsageSums & Partial<Pick<UsageGroup, "group" | "isRemainder" | "previous">>;

/** A report for people, with its total where that says more than the only row. */
export function printReport(report: UsageReport): void {
  const { rows, total } = report;
  const lines: Line[] = rows.length === 1 ? rows : [...rows, total];
  if (rows.length === 0) print("No usage.");
  else printTable([...keyColumns(report), ...sumColumns(lines)], lines);
}

const TIME_UNITS: readonly string[] = USAGE_TIME_UNITS;

function keyColumns({ by }: UsageReport): Column<Line>[] {
  // The first text says what the line is, if it is no group.
  const first = by.find((key) => !TIME_UNITS.includes(key));
  return by.map((key, index) => {
    const isTime = TIME_UNITS.includes(key);
    return {
      head: oneLine(keyName(key).toUpperCase(), 30),
      cell: (line) => keyCell(line, key, { isFirst: index === 0, isName: key === first }),
      // From the start, ids of sessions and directories look alike.
      ...(isTime ? {} : { shrink: { min: 10, ...(FROM_END.has(key) ? { cut: "start" as const } : {}) } }),
    };
  });
}

const FROM_END: ReadonlySet<UsageKey> = new Set(["session", "root", "cwd"]);

function keyCell(
  { group, isRemainder }: Line,
  key: UsageKey,
  { isFirst, isName }: { isFirst: boolean; isName: boolean },
): string {
  if (group === undefined) return isFirst ? "Total" : "";
  if (isRemainder && !TIME_UNITS.includes(key)) return isName ? OTHERS : "";
  return oneLine(group[key] ?? "–", 60);
}

/** Without the columns in which nothing would stand. */
function sumColumns(lines: readonly Line[]): Column<Line>[] {
  const has = (something: (line: Line) => unknown) => lines.some(something);
  return [
    count("CALLS", ({ calls }) => calls),
    ...(has(({ unpricedCalls }) => unpricedCalls) ? [count("UNPRICED", (line) => line.unpricedCalls)] : []),
    count("INPUT", ({ input }) => input),
    count("OUTPUT", ({ output }) => output),
    count("CACHE READ", ({ cacheRead }) => cacheRead),
    count("CACHE WRITE", ({ cacheWrite }) => cacheWrite),
    right("HITS", ({ cacheHitRatio }) => formatShare(cacheHitRatio)),
    count("TOKENS", ({ totalTokens }) => totalTokens),
    money("PER CALL", ({ costPerCall }) => costPerCall),
    ...(has(({ adjustments }) => adjustments.rows)
      ? [money("ADJUSTED", (line) => line.adjustments.cost)]
      : []),
    money("COST", ({ cost }) => cost.total),
    ...(has(({ previous }) => previous)
      ? [money("BEFORE", ({ previous }) => previous?.cost.total ?? null), right("CHANGE", formatChange)]
      : []),
  ];
}

function count(head: string, of: (line: Line) => number): Column<Line> {
  return right(head, (line) => formatCount(of(line)));
}

function money(head: string, of: (line: Line) => string | null): Column<Line> {
  return right(head, (line) => {
    const cost = of(line);
    return cost === null ? "–" : formatCost(cost);
  });
}

function right(head: string, cell: (line: Line) => string): Column<Line> {
  return { head, cell, align: "right" };
}

function formatShare(share: number | null): string {
  return share === null ? "–" : share.toLocaleString("en-US", { style: "percent" });
}

/** Of the cost. */
function formatChange({ cost, previous }: Line): string {
  const before = Number(previous?.cost.total ?? 0);
  if (before === 0) return "–";
  const change = Number(cost.total) / before - 1;
  return change.toLocaleString("en-US", { style: "percent", signDisplay: "exceptZero" });
}
