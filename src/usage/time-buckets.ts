import { InvalidOptionError } from "../contract/errors.ts";
import type { UsageReport } from "../postgres/usage-report.ts";
import { USAGE_TIME_UNITS, type UsageKey, type UsageTimeUnit } from "../postgres/usage-report-options.ts";

/** The most that a chart draws. */
const MAX_BUCKETS = 10_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** Clocks are changed by no less, and time zones differ by multiples of it. */
const QUARTER_MS = HOUR_MS / 4;

export function timeUnitOf(by: readonly UsageKey[]): UsageTimeUnit | undefined {
  return USAGE_TIME_UNITS.find((unit) => by.includes(unit));
}

/**
 * The units of time of a report in their order, as its rows name them, those without usage too: from its beginning to
 * its end, or where it has none, from the first to the last row.
 *
 * @throws InvalidOptionError of `by`: more than 10,000
 */
export function timeBuckets(report: UsageReport, unit: UsageTimeUnit): string[] {
  const { from, to, timeZone } = report;
  const clock = clockOf(timeZone);
  const startOf = (label: string) => (unit === "hour" ? Date.parse(label) : Date.parse(dayOf(label)));
  const used = [...new Set(report.rows.map(({ group }) => group[unit] ?? ""))].filter(
    (label) => label !== "",
  );
  used.sort((left, right) => startOf(left) - startOf(right));

  const labelAt = (ms: number) => (unit === "hour" ? hourLabel(clock, ms) : dateLabel(clock, ms, unit));
  const first = from === null ? used[0] : labelAt(from);
  const last = to === null || (from !== null && to <= from) ? used.at(-1) : labelAt(to - 1);
  if (first === undefined || last === undefined) return used;

  const buckets = new Map(used.map((label) => [startOf(label), label]));
  const end = startOf(last);
  for (let label = first, count = 0; startOf(label) <= end; label = next(clock, unit, label)) {
    if (++count > MAX_BUCKETS) {
      throw new InvalidOptionError(
        "by",
        unit,
        `a chart has at most ${MAX_BUCKETS} units of time: take a larger unit, or a shorter time`,
      );
    }
    buckets.set(startOf(label), buckets.get(startOf(label)) ?? label);
  }
  return [...buckets].sort(([left], [right]) => left - right).map(([, label]) => label);
}

function next(clock: Clock, unit: UsageTimeUnit, label: string): string {
  switch (unit) {
    case "hour": {
      const start = Date.parse(label);
      // An hour in which clocks are set back takes longer.
      for (let ms = start + HOUR_MS; ; ms += QUARTER_MS) {
        const later = hourLabel(clock, ms);
        if (Date.parse(later) > start) return later;
      }
    }
    case "day":
      return isoDay(Date.parse(label) + DAY_MS);
    case "week":
      return isoDay(Date.parse(label) + 7 * DAY_MS);
    case "month": {
      const date = new Date(dayOf(label));
      return isoDay(date.setUTCMonth(date.getUTCMonth() + 1)).slice(0, 7);
    }
  }
}

/** The first day of a day, week or month. */
function dayOf(label: string): string {
  return label.length === 7 ? `${label}-01` : label;
}

function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The day, week or month in which a point in time lies. */
function dateLabel(clock: Clock, ms: number, unit: UsageTimeUnit): string {
  const { day } = clock(ms);
  if (unit === "month") return day.slice(0, 7);
  if (unit === "day") return day;
  const weekday = (new Date(day).getUTCDay() + 6) % 7;
  return isoDay(Date.parse(day) - weekday * DAY_MS);
}

function hourLabel(clock: Clock, ms: number): string {
  let start = Math.floor(ms / 60_000) * 60_000;
  let time = clock(start);
  // Behind a change of the clock by half an hour, the full hour is further back than the clock says.
  for (let tries = 0; time.minute !== 0 && tries < 4; tries++) {
    start -= time.minute * 60_000;
    time = clock(start);
  }
  return `${time.day}T${String(time.hour).padStart(2, "0")}:${String(time.minute).padStart(2, "0")}${time.offset}`;
}

/** What a clock in the time zone shows. */
type Clock = (ms: number) => { day: string; hour: number; minute: number; offset: string };

function clockOf(timeZone: string): Clock {
  const format = new Intl.DateTimeFormat("en-US", {
    ...{ timeZone, calendar: "gregory", numberingSystem: "latn", hourCycle: "h23" },
    ...{ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" },
    timeZoneName: "longOffset",
  });
  return (ms) => {
    const part = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, value]));
    const year = (part["year"] ?? "").padStart(4, "0");
    return {
      day: `${year}-${part["month"]}-${part["day"]}`,
      hour: Number(part["hour"]),
      minute: Number(part["minute"]),
      offset: part["timeZoneName"]?.slice("GMT".length) || "+00:00",
    };
  };
}
