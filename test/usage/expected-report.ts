/** Reports as they should be, worked out row by row without a database. */

import type { UsageGroup, UsageKey, UsageReport, UsageReportOptions, UsageSums } from "../../src/index.ts";
import { type Decimal, decimalOf, quotientOf, textOf } from "./decimal.ts";
import type { Sessions, Spent } from "./spending.ts";

type Options = Omit<UsageReportOptions, "orderBy" | "tenant"> & { tenant: string };

const UNITS: readonly string[] = ["hour", "day", "week", "month"];
const DAY_MS = 86_400_000;

/** Sorted as without `orderBy`. Times are local dates or milliseconds. */
export function expectedReport(rows: readonly Spent[], sessions: Sessions, options: Options): UsageReport {
  const { from, to, timeZone = "UTC", by = [], compare = false, cumulative = false } = options;
  const [start, end] = [momentOf(from, timeZone), momentOf(to, timeZone)];
  const before = compare ? periodBefore(options) : undefined;
  const matching = rows.filter((row) => matches(row, sessions, options));
  const priced = new Set(rows.filter(({ cost = 0 }) => cost !== 0).map(modelOf));
  const sumsOf = (some: readonly Spent[]) => sumsOfRows(some, priced);
  const current = matching.filter(
    ({ at }) => (start ?? -Infinity) <= Number(at) && Number(at) < (end ?? Infinity),
  );
  const previous = matching.filter(
    ({ at }) => before !== undefined && before.from <= Number(at) && Number(at) < (start as number),
  );
  const withPrevious = (some: readonly Spent[], others: readonly Spent[]) => ({
    ...sumsOf(some),
    ...(compare ? { previous: sumsOf(others) } : {}),
  });

  const unit = by.find((key) => UNITS.includes(key));
  const label = (time: LocalTime) => (unit === undefined ? null : labelOf(unit, time));
  const located = [
    ...current.map((row) => ({ row, isPrevious: false, label: label(localTime(Number(row.at), timeZone)) })),
    ...previous.flatMap((row) => {
      const moved = before?.move(Number(row.at));
      if (unit !== undefined && (moved === undefined || moved.isBeyond)) return [];
      return [{ row, isPrevious: true, label: moved === undefined ? null : label(moved) }];
    }),
  ];
  const keysOf = (row: Spent) =>
    by.filter((key) => key !== unit).map((key) => columnOf(row, sessions, key, options));
  const kept = keptGroups(current, previous, keysOf, options.top);
  const cells = new Map<string, Cell>();
  for (const { row, isPrevious, label } of located) {
    const keys = keysOf(row);
    const isRemainder = !kept.has(JSON.stringify(keys));
    const shown = isRemainder ? keys.map(() => null) : keys;
    const id = JSON.stringify([label, isRemainder, shown]);
    const cell = cells.get(id) ?? { label, isRemainder, keys: shown, current: [], previous: [] };
    cell[isPrevious ? "previous" : "current"].push(row);
    cells.set(id, cell);
  }
  const sorted =
    by.length === 0
      ? []
      : [...cells.values()].map((cell) => (cumulative ? upTo(cell, cells) : cell)).sort(inOrder);
  return {
    from: start ?? null,
    to: end ?? null,
    ...(before === undefined ? {} : { previous: { from: before.from, to: start as number } }),
    timeZone,
    by: [...by],
    isCumulative: cumulative,
    rows: sorted.map((cell) => {
      const values = [...cell.keys];
      return {
        group: Object.fromEntries(
          by.map((key) => [key, key === unit ? cell.label : values.shift()]),
        ) as UsageGroup["group"],
        isRemainder: cell.isRemainder,
        ...withPrevious(cell.current, cell.previous),
      };
    }),
    total: withPrevious(current, previous),
  };
}

interface Cell {
  label: string | null;
  isRemainder: boolean;
  keys: (string | null)[];
  current: Spent[];
  previous: Spent[];
}

/** With what the same group has in the units of time before. Labels sort as their times do, but for hours. */
function upTo(cell: Cell, cells: ReadonlyMap<string, Cell>): Cell {
  const same = [...cells.values()].filter(
    (other) =>
      other.isRemainder === cell.isRemainder &&
      JSON.stringify(other.keys) === JSON.stringify(cell.keys) &&
      compareLabels(other.label, cell.label) <= 0,
  );
  return {
    ...cell,
    current: same.flatMap(({ current }) => current),
    previous: same.flatMap(({ previous }) => previous),
  };
}

function inOrder(left: Cell, right: Cell): number {
  return (
    compareLabels(left.label, right.label) ||
    Number(left.isRemainder) - Number(right.isRemainder) ||
    compare(costOf(right.current), costOf(left.current)) ||
    compareKeys(left.keys, right.keys)
  );
}

/** Groups that `top` shows: the most expensive, by keys where they cost the same. */
function keptGroups(
  current: readonly Spent[],
  previous: readonly Spent[],
  keysOf: (row: Spent) => (string | null)[],
  top = Infinity,
): Set<string> {
  const costs = new Map<string, Decimal>();
  for (const row of previous) costs.set(JSON.stringify(keysOf(row)), 0n);
  for (const row of current) costs.set(JSON.stringify(keysOf(row)), 0n);
  for (const row of current) {
    const id = JSON.stringify(keysOf(row));
    costs.set(id, (costs.get(id) ?? 0n) + decimalOf(row.cost ?? 0));
  }
  const sorted = [...costs].sort(
    ([left, cost], [right, other]) =>
      compare(other, cost) || compareKeys(JSON.parse(left), JSON.parse(right)),
  );
  return new Set(sorted.slice(0, top).map(([id]) => id));
}

function compareLabels(left: string | null, right: string | null): number {
  const moment = (label: string | null) => (label?.includes("T") ? Date.parse(label) : label);
  return compare(moment(left) ?? "", moment(right) ?? "");
}

function compareKeys(left: (string | null)[], right: (string | null)[]): number {
  const differs = left.findIndex((value, index) => value !== right[index]);
  if (differs === -1) return 0;
  const [value, other] = [left[differs] ?? null, right[differs] ?? null];
  if (value === null || other === null) return value === null ? 1 : -1;
  return compare(value, other);
}

function compare<T extends bigint | string | number>(left: T, right: T): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function matches(row: Spent, sessions: Sessions, { where = {}, ...options }: Options): boolean {
  const { dimensions = {}, ...columns } = where;
  const asked = [
    ...Object.entries(columns),
    ...Object.entries(dimensions).map(([key, values]) => [`dimension:${key}`, values] as const),
  ];
  return asked.every(([key, values]) => {
    const value = columnOf(row, sessions, key as UsageKey, options);
    return value !== null && [values].flat().includes(value);
  });
}

function columnOf(
  row: Spent,
  sessions: Sessions,
  key: UsageKey,
  { tenant }: Pick<Options, "tenant">,
): string | null {
  const session = row.session ?? "s";
  if (key.startsWith("dimension:")) {
    const value = sessions[session]?.metadata?.[key.slice("dimension:".length)];
    return value === undefined ? null : String(value);
  }
  switch (key) {
    case "tenant":
      return tenant;
    case "provider":
    case "model":
      return row[key] === null ? "unknown" : (row[key] ?? (key[0] as string));
    case "session":
    case "root":
      return session;
    case "cwd":
      return sessions[session]?.cwd ?? null;
    default:
      return "unknown";
  }
}

const modelOf = ({ provider = "p", model = "m" }: Spent) => JSON.stringify([provider, model]);

function costOf(rows: readonly Spent[]): Decimal {
  return rows.reduce((sum, { cost = 0 }) => sum + decimalOf(cost), 0n);
}

function sumsOfRows(rows: readonly Spent[], priced: ReadonlySet<string>): UsageSums {
  const calls = rows.filter(({ adjustment }) => !adjustment);
  const adjustments = rows.filter(({ adjustment }) => adjustment);
  const sum = (value: (row: Spent) => number) => rows.reduce((all, row) => all + value(row), 0);
  const money = (value: (row: Spent) => number) =>
    textOf(rows.reduce((all, row) => all + decimalOf(value(row)), 0n));
  const [input, cacheRead, cacheWrite] = [
    sum((row) => row.input ?? 0),
    sum((row) => row.cacheRead ?? 0),
    sum((row) => row.cacheWrite ?? 0),
  ];
  const inputs = input + cacheRead + cacheWrite;
  return {
    calls: calls.length,
    input,
    output: sum((row) => row.output ?? 0),
    cacheRead,
    cacheWrite,
    cacheWrite1h: sum((row) => row.cacheWrite1h ?? 0),
    reasoning: sum((row) => row.reasoning ?? 0),
    totalTokens: sum((row) => row.totalTokens ?? 10),
    cost: {
      input: money((row) => row.costs?.input ?? 0),
      output: money((row) => row.costs?.output ?? 0),
      cacheRead: money((row) => row.costs?.cacheRead ?? 0),
      cacheWrite: money((row) => row.costs?.cacheWrite ?? 0),
      total: money((row) => row.cost ?? 0),
    },
    adjustments: { rows: adjustments.length, cost: textOf(costOf(adjustments)) },
    cacheHitRatio: inputs === 0 ? null : cacheRead / inputs,
    costPerCall: calls.length === 0 ? null : textOf(quotientOf(costOf(rows), calls.length, 12)),
    unpricedCalls: calls.filter(
      (row) => (row.totalTokens ?? 10) > 0 && (row.cost ?? 0) === 0 && priced.has(modelOf(row)),
    ).length,
  };
}

/** What clocks show: as if it were UTC, and how much that is ahead. */
interface LocalTime {
  clock: number;
  offsetMs: number;
}

function localTime(at: number, timeZone: string): LocalTime {
  const parts = Object.fromEntries(
    new Intl.DateTimeFormat("en", { timeZone, ...PARTS })
      .formatToParts(at)
      .map(({ type, value }) => [type, Number(value)]),
  ) as Record<string, number>;
  const { year = 0, month = 0, day, hour, minute, second } = parts;
  const clock = Date.UTC(year, month - 1, day, hour, minute, second) + (((at % 1000) + 1000) % 1000);
  return { clock, offsetMs: clock - at };
}

const PARTS = {
  ...({ year: "numeric", month: "numeric", day: "numeric" } as const),
  ...({ hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" } as const),
};

function labelOf(unit: string, { clock, offsetMs }: LocalTime): string {
  const iso = new Date(clock).toISOString();
  if (unit === "month") return iso.slice(0, 7);
  if (unit === "day") return iso.slice(0, 10);
  if (unit === "week") {
    const daysSinceMonday = (new Date(clock).getUTCDay() + 6) % 7;
    return new Date(clock - daysSinceMonday * DAY_MS).toISOString().slice(0, 10);
  }
  const offset = new Date(Math.abs(offsetMs)).toISOString().slice(11, 16);
  return `${iso.slice(0, 13)}:00${offsetMs < 0 ? "-" : "+"}${offset}`;
}

/** Of a local date, or of milliseconds. */
function momentOf(time: UsageReportOptions["from"], timeZone: string): number | undefined {
  if (typeof time !== "string") return time === undefined ? undefined : Number(time);
  const clock = Date.parse(`${time}T00:00Z`);
  const guess = clock - localTime(clock, timeZone).offsetMs;
  return clock - localTime(guess, timeZone).offsetMs;
}

/** Whole months, whole days, or milliseconds. */
function periodBefore({ from, to, timeZone = "UTC", by = [] }: Options) {
  if (typeof from !== "string" || typeof to !== "string") {
    const [start, end] = [Number(from), Number(to)];
    const move = (at: number) => ({
      ...localTime(at + end - start, timeZone),
      isBeyond: false,
    });
    return { from: 2 * start - end, move };
  }
  const [first, last] = [new Date(from), new Date(to)];
  const isMonths = first.getUTCDate() === 1 && last.getUTCDate() === 1;
  const months =
    (last.getUTCFullYear() - first.getUTCFullYear()) * 12 + last.getUTCMonth() - first.getUTCMonth();
  const firstBefore = isMonths
    ? Date.UTC(first.getUTCFullYear(), first.getUTCMonth() - months)
    : 2 * first.getTime() - last.getTime();
  const move = (at: number) => {
    const { clock, offsetMs } = localTime(at, timeZone);
    if (isMonths && by.includes("month")) {
      const date = new Date(clock);
      return {
        clock: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months),
        offsetMs,
        isBeyond: false,
      };
    }
    const moved = clock + first.getTime() - firstBefore;
    return { clock: moved, offsetMs, isBeyond: moved >= last.getTime() };
  };
  return { from: momentOf(new Date(firstBefore).toISOString().slice(0, 10), timeZone) as number, move };
}
