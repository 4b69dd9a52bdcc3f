import type { UsageTimeUnit } from "../../postgres/usage-report-options.ts";

export function count(value: number | string | null): string {
  return value === null ? "–" : BigInt(value).toLocaleString("en-US");
}

const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** `12.3M` */
export function compactCount(value: number): string {
  return COMPACT.format(value);
}

/** Of a share from 0 to 1. */
export function percent(share: number | null): string {
  return share === null ? "–" : `${(share * 100).toFixed(1)}%`;
}

/** How a unit of time stands below a chart. */
export function tickLabel(label: string, unit: UsageTimeUnit): string {
  const [year, month, day] = label.slice(0, 10).split("-");
  const name = MONTHS[Number(month) - 1] ?? "";
  switch (unit) {
    case "hour":
      return label.slice(11, 16);
    case "month":
      return `${name} ${year}`;
    default:
      return `${Number(day)} ${name}`;
  }
}

/** How a unit of time stands in a table. */
export function bucketLabel(label: string, unit: UsageTimeUnit): string {
  switch (unit) {
    case "hour":
      return `${tickLabel(label, "day")} ${label.slice(0, 4)}, ${label.slice(11, 16)} ${label.slice(16)}`;
    case "month":
      return tickLabel(label, unit);
    case "week":
      return `week of ${tickLabel(label, unit)} ${label.slice(0, 4)}`;
    case "day":
      return `${tickLabel(label, unit)} ${label.slice(0, 4)}`;
  }
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** A range of time, its days inclusive: `1 Nov 2026 – 30 Nov 2026`. */
export function periodText(from: number | null, to: number | null, timeZone: string): string {
  if (from === null && to === null) return "everything so far";
  const start = from === null ? undefined : pointInTime(from, timeZone, "start");
  const end = to === null ? undefined : pointInTime(to, timeZone, "end");
  if (start === undefined) return `until ${end}`;
  if (end === undefined) return `since ${start}`;
  return start === end ? start : `${start} – ${end}`;
}

function pointInTime(ms: number, timeZone: string, side: "start" | "end"): string {
  const date = { timeZone, day: "numeric", month: "short", year: "numeric" } as const;
  const time = new Intl.DateTimeFormat("en-GB", { timeZone, timeStyle: "medium" });
  if (time.format(ms) === "00:00:00")
    return new Intl.DateTimeFormat("en-GB", date).format(side === "start" ? ms : ms - 1);
  return new Intl.DateTimeFormat("en-GB", { ...date, hour: "2-digit", minute: "2-digit" }).format(ms);
}
