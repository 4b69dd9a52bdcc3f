import { styleText } from "node:util";
import { shortenedTo, widthOf } from "../contract/letters.ts";
import { visible } from "../contract/visible.ts";
import type { UsageReport } from "../postgres/usage-report.ts";
import type { UsageMeasure } from "../postgres/usage-report-options.ts";
import { sumOf } from "./exact-decimal.ts";
import { groupKeys, keyName } from "./group-name.ts";
import { digitsFor, dollars } from "./money.ts";
import { type Series, type TimeSeries, timeSeries } from "./time-series.ts";

export interface UsageChartOptions {
  /** Columns of the terminal, at least 40. Default 80. */
  width?: number;
  /** What the bars show. Default `cost`. `cacheHitRatio` and `costPerCall` take a report by time alone. */
  column?: UsageMeasure;
  /** Whether the terminal shows block characters; else the bars are of ASCII. Default true. */
  unicode?: boolean;
  /** Whether the terminal obeys colour codes. Default false. */
  color?: boolean;
}

const MIN_WIDTH = 40;
/** One more is what all others add up to. */
const FILLS = { unicode: ["█", "▓", "▒", "░", "═"], ascii: ["#", "=", "+", "o", "-"] } as const;
const OTHERS_FILL = { unicode: "·", ascii: "." } as const;
const COLORS = ["cyan", "magenta", "yellow", "green", "blue"] as const;
/** A bar's end, in eighths of a column. */
const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;

/**
 * A report along time as bars of text, one for each unit of time, those without usage too. The five largest groups
 * have a part of the bar each, all others one together. A bar shows what is above zero; the number behind it is the
 * sum.
 *
 * @returns lines without a line break at the end
 * @throws InvalidOptionError of `by`: the report has no unit of time, or more than 10,000 of them; of `column`: it does
 *   not add up
 * @example
 * const report = await db.usage.report({ by: ["day", "model"], from: "2026-11-01" }, context);
 * console.log(usageChart(report, { width: process.stdout.columns }));
 */
export function usageChart(report: UsageReport, options: UsageChartOptions = {}): string {
  const { column = "cost", unicode = true, color = false } = options;
  const width = Math.max(options.width ?? 80, MIN_WIDTH);
  const chart = timeSeries(report, column, FILLS.unicode.length + 1);
  if (chart.series.length === 0) return "No usage.";

  const pens = chart.series.map((one, index) => penOf(one, index, { unicode, color }));
  const show = formatOf(column, chart);
  const lines = [
    ...wrapped(titleOf(report, column, chart), width),
    ...legendOf(report, chart, pens, { width, show }),
    "",
    ...barsOf(chart, pens, { width, show, unicode, color }),
  ].join("\n");
  return unicode ? lines : lines.replaceAll("…", "~");
}

/** Draws so many columns of a bar. */
type Pen = (columns: number) => string;
type Show = (value: string | null) => string;

function penOf(
  { isOthers }: Series,
  index: number,
  { unicode, color }: { unicode: boolean; color: boolean },
): Pen {
  const set = unicode ? "unicode" : "ascii";
  const fill = (isOthers ? undefined : FILLS[set][index]) ?? OTHERS_FILL[set];
  const hue = isOthers ? "gray" : (COLORS[index] ?? "gray");
  return (columns) => colored(hue, fill.repeat(columns), color);
}

function colored(hue: (typeof COLORS)[number] | "gray", text: string, color: boolean): string {
  return color && text !== "" ? styleText(hue, text, { validateStream: false }) : text;
}

function formatOf(column: UsageMeasure, { series, buckets }: TimeSeries): Show {
  const digits = digitsFor(buckets.map((_, bucket) => sumAt(series, bucket)));
  return (value) => {
    if (value === null) return "";
    if (column === "cost" || column === "costPerCall") return dollars(value, digits);
    if (column === "cacheHitRatio") return `${(Number(value) * 100).toFixed(1)} %`;
    return BigInt(value).toLocaleString("en-US");
  };
}

/** Null where there is nothing that could be shown. */
function sumAt(series: readonly Series[], bucket: number): string | null {
  const values = series.flatMap(({ values }) => values[bucket] ?? []);
  return values.length === 0 ? null : sumOf(values);
}

function titleOf(report: UsageReport, column: UsageMeasure, { unit }: TimeSeries): string {
  const keys = [unit, ...groupKeys(report).map(keyName)];
  const by = keys.length === 1 ? unit : `${keys.slice(0, -1).join(", ")} and ${keys.at(-1)}`;
  return `${MEASURE_NAMES[column]} by ${by} (${report.timeZone})${report.isCumulative ? ", running sum" : ""}`;
}

export const MEASURE_NAMES: Readonly<Record<UsageMeasure, string>> = {
  calls: "Calls",
  input: "Input tokens",
  output: "Output tokens",
  cacheRead: "Tokens read from caches",
  cacheWrite: "Tokens written to caches",
  cacheWrite1h: "Tokens written to caches for an hour",
  reasoning: "Reasoning tokens",
  totalTokens: "Tokens",
  cost: "Cost",
  cacheHitRatio: "Cache-hit ratio",
  costPerCall: "Cost per call",
  unpricedCalls: "Unpriced calls",
};

/** At spaces, so that no line is wider, if no word is. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && widthOf(`${last} ${word}`) <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function legendOf(
  report: UsageReport,
  { series }: TimeSeries,
  pens: readonly Pen[],
  { width, show }: { width: number; show: Show },
): string[] {
  if (groupKeys(report).length === 0) return [];
  const totals = series.map(({ total }) => show(total));
  const totalWidth = widest(totals);
  const names = series.map(({ name }) => shortenedTo(width - totalWidth - 6, oneLine(name)));
  const nameWidth = widest(names);
  return [
    "",
    ...series.map((_, index) => {
      const name = padded(names[index] ?? "", nameWidth);
      return `  ${pens[index]?.(1)} ${name}  ${(totals[index] ?? "").padStart(totalWidth)}`;
    }),
  ];
}

function barsOf(
  { buckets, series }: TimeSeries,
  pens: readonly Pen[],
  options: { width: number; show: Show; unicode: boolean; color: boolean },
): string[] {
  const { width, show, unicode, color } = options;
  const sums = buckets.map((_, bucket) => show(sumAt(series, bucket)));
  const room = width - widest(buckets) - widest(sums) - 4;
  const parts = buckets.map((_, bucket) =>
    series.map(({ values }) => Math.max(Number(values[bucket] ?? 0), 0)),
  );
  const longest = parts.reduce((most, bar) => Math.max(most, total(bar)), 0);
  return buckets.map((bucket, index) => {
    const bar = (parts[index] ?? []).map((part) => (longest === 0 ? 0 : (part / longest) * room));
    const [drawn, columns] =
      series.length === 1 && unicode ? smoothBar(bar[0] ?? 0, color) : stackedBar(bar, pens);
    const sum = (sums[index] ?? "").padStart(widest(sums));
    return `${bucket.padEnd(widest(buckets))}  ${drawn}${" ".repeat(room - columns)}  ${sum}`.trimEnd();
  });
}

/** As text, and its width. */
function smoothBar(length: number, color: boolean): [string, number] {
  // Nothing is as short as to look like nothing.
  const eighths = Math.max(Math.round(length * 8), length > 0 ? 1 : 0);
  const bar = `${"█".repeat(Math.floor(eighths / 8))}${EIGHTHS[eighths % 8]}`;
  return [colored(COLORS[0], bar, color), bar.length];
}

/** Each part ends where the sum of the parts up to there ends, so that the bar is not longer for its many parts. */
function stackedBar(parts: readonly number[], pens: readonly Pen[]): [string, number] {
  let drawn = "";
  let sum = 0;
  let columns = 0;
  for (const [index, part] of parts.entries()) {
    sum += part;
    const more = Math.round(sum) - columns;
    drawn += pens[index]?.(more) ?? "";
    columns += more;
  }
  return columns === 0 && sum > 0
    ? [pens[parts.findIndex((part) => part > 0)]?.(1) ?? "", 1]
    : [drawn, columns];
}

function oneLine(text: string): string {
  return visible(text.replaceAll(/\s+/g, " ")).trim();
}

function padded(text: string, width: number): string {
  return text + " ".repeat(Math.max(width - widthOf(text), 0));
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, widthOf(text)), 0);
}

function total(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
