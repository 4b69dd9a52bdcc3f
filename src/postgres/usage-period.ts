import { type Expression, type RawBuilder, sql } from "kysely";
import { InvalidOptionError } from "../contract/errors.ts";
import type { UsageTime, UsageTimeUnit } from "./usage-report-options.ts";

/** A point in time as the server takes it: milliseconds since the epoch, or a local time. */
export type Instant = { readonly at: number } | { readonly local: string };

/** First of the year 1, and of the year 10000: what a local time can say. */
const EARLIEST = -62_135_596_800_000;
const LATEST = 253_402_300_800_000;

const DATE = /^(\d{4})(-\d\d)?(-\d\d)?$/;
const DATE_AND_TIME = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?$/;

/** @throws InvalidOptionError */
export function instantOf(option: "from" | "to", time: UsageTime): Instant {
  const instant = typeof time === "string" ? instantOfText(time) : { at: Number(time) };
  if (instant !== undefined && "local" in instant) return instant;
  const at = instant?.at ?? Number.NaN;
  if (Number.isSafeInteger(at) && at >= EARLIEST && at <= LATEST) return { at };
  throw new InvalidOptionError(
    option,
    typeof time === "string" ? JSON.stringify(time) : String(time),
    "pass a time of the years 1 to 9999, such as 2026-03-01, 2026-03-01T09:30, 2026-03-01T09:30Z, a Date, or milliseconds since the epoch",
  );
}

function instantOfText(text: string): Instant | undefined {
  const [isDate, year, month = "-01", day = "-01"] = DATE.exec(text) ?? [];
  const [, date = `${year}${month}${day}`, timeOfDay = "00:00", offset] = DATE_AND_TIME.exec(text) ?? [];
  const at = Date.parse(`${date}T${timeOfDay}${offset ?? "Z"}`);
  // JavaScript takes February 30 for March 2.
  if (Number.isNaN(at) || !new Date(date).toISOString().startsWith(date) || date.startsWith("0000")) return;
  return offset === undefined || isDate ? { local: `${date} ${timeOfDay}` } : { at };
}

/** In PostgreSQL these are also abbreviations, of offsets that know no summer. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  CET: "Europe/Brussels",
  EET: "Europe/Athens",
  MET: "Europe/Brussels",
  WET: "Europe/Lisbon",
};

/** The names of three letters in the database. JavaScript knows more, and of some something else than PostgreSQL. */
const SHORT_NAMES: ReadonlySet<string> = new Set([
  ...Object.keys(ABBREVIATIONS),
  ...["EST", "GMT", "HST", "MST", "PRC", "ROC", "ROK", "UCT", "UTC"],
]);

/**
 * The name by which PostgreSQL knows the time zone.
 *
 * @throws InvalidOptionError
 */
export function serverTimeZone(timeZone: string): string {
  if (!isTimeZone(timeZone)) throw unknownTimeZone(timeZone);
  return ABBREVIATIONS[timeZone.toUpperCase()] ?? timeZone;
}

function isTimeZone(timeZone: unknown): boolean {
  // JavaScript takes offsets too, which PostgreSQL reads with the opposite sign.
  if (typeof timeZone !== "string" || !/^[A-Za-z]/.test(timeZone)) return false;
  if (/^[A-Za-z]{3}$/.test(timeZone) && !SHORT_NAMES.has(timeZone.toUpperCase())) return false;
  if (KNOWN_ZONES.has(timeZone)) return true;
  try {
    new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    return false;
  }
  if (KNOWN_ZONES.size < MAX_KNOWN_ZONES) KNOWN_ZONES.add(timeZone);
  return true;
}

/** A format takes longer to make than all else that a report does in this process. */
const KNOWN_ZONES = new Set<string>();
/** As there are in the database; case does not matter in names, so there could be more. */
const MAX_KNOWN_ZONES = 600;

export function unknownTimeZone(timeZone: unknown): InvalidOptionError {
  return new InvalidOptionError(
    "timeZone",
    JSON.stringify(timeZone),
    "pass a name of the IANA time zone database that the server knows too, such as Europe/Berlin",
  );
}

/** What a report is about in time. */
export interface Period {
  readonly from: Instant | undefined;
  readonly to: Instant | undefined;
  /** As PostgreSQL knows it. */
  readonly timeZone: string;
  readonly unit: UsageTimeUnit | undefined;
  readonly compare: boolean;
}

/**
 * One row, for a CTE `period`: `from_at` and `to_at` in milliseconds since the epoch; with `compare` also `previous_at`,
 * where the period before begins, and how its times move forward to lie in the period: by `shift`, of local times if
 * `is_local`. Whole months are preceded by as many months, whole days by as many days, everything else by as many
 * milliseconds.
 */
export function periodRow({ from, to, timeZone, unit, compare }: Period): RawBuilder<unknown> {
  const bounds = sql`
    select ${at(from, timeZone)} as from_at, ${at(to, timeZone)} as to_at,
      ${local(from, timeZone)} as from_local, ${local(to, timeZone)} as to_local`;
  if (!compare) {
    return sql`
      select b.*, null::bigint as previous_at, null::boolean as is_local, null::interval as shift
      from (${bounds}) as b`;
  }
  return sql`
    select w.from_at, w.to_at, w.is_local,
      case when w.is_local then ${millisecondsOf(sql`(w.from_local - w.length) at time zone ${timeZone}`)}
        else 2 * w.from_at - w.to_at end as previous_at,
      case when not w.is_local then (w.to_at - w.from_at) * interval '1 millisecond'
        when ${unit === "month"} then w.length
        else w.from_local - (w.from_local - w.length) end as shift
    from (
      select d.*, d.length is not null as is_local
      from (
        select b.*,
          case when date_trunc('month', b.from_local) = b.from_local and date_trunc('month', b.to_local) = b.to_local
            then make_interval(months => (extract(year from b.to_local) - extract(year from b.from_local))::int * 12
              + (extract(month from b.to_local) - extract(month from b.from_local))::int)
          when date_trunc('day', b.from_local) = b.from_local and date_trunc('day', b.to_local) = b.to_local
            then b.to_local - b.from_local
          end as length
        from (${bounds}) as b
      ) as d
    ) as w`;
}

function at(instant: Instant | undefined, timeZone: string): RawBuilder<number | null> {
  if (instant === undefined) return sql`null::bigint`;
  if ("at" in instant) return sql`${instant.at}::bigint`;
  return millisecondsOf(sql`${instant.local}::timestamp at time zone ${timeZone}`);
}

function local(instant: Instant | undefined, timeZone: string): RawBuilder<unknown> {
  if (instant === undefined) return sql`null::timestamp`;
  if ("local" in instant) return sql`${instant.local}::timestamp`;
  return sql`${pointInTime(sql`${instant.at}::bigint`)} at time zone ${timeZone}`;
}

/** Of a point in time. */
export function millisecondsOf(time: Expression<unknown>): RawBuilder<number> {
  return sql`(extract(epoch from ${time}) * 1000)::bigint`;
}

/** Of milliseconds since the epoch. Exact, and faster than division of numerics. */
export function pointInTime(milliseconds: Expression<number>): RawBuilder<unknown> {
  return sql`to_timestamp(${milliseconds}::double precision / 1000)`;
}

/** The beginning of the unit of time in which a fact lies. */
export function bucketOf(milliseconds: Expression<number>, { unit, timeZone }: Period): RawBuilder<unknown> {
  if (unit === undefined) return sql`null::timestamptz`;
  return sql`date_trunc(${sql.lit(unit)}, ${pointInTime(milliseconds)}, ${timeZone})`;
}

/**
 * The unit of time of the period in which a fact of the period before belongs; null where the period is shorter, as
 * November is for the last of October. Expects `p`, the row of the period.
 */
export function movedBucketOf(
  milliseconds: Expression<number>,
  { unit, timeZone }: Period,
): RawBuilder<unknown> {
  if (unit === undefined) return sql`null::timestamptz`;
  const time = pointInTime(milliseconds);
  const moved = sql`
    case when p.is_local then (${time} at time zone ${timeZone} + p.shift) at time zone ${timeZone}
      else ${time} + p.shift end`;
  return sql`
    case when ${moved} < ${pointInTime(sql`p.to_at`)} then date_trunc(${sql.lit(unit)}, ${moved}, ${timeZone}) end`;
}

/**
 * What the clock shows when an hour begins. Where clocks change by half an hour, an hour is said to begin half an hour
 * before it does, when they showed something else; so the clock of its end tells.
 */
function hourOf(bucket: Expression<unknown>, { timeZone }: Period): RawBuilder<unknown> {
  const first = sql`(${bucket}) at time zone ${timeZone}`;
  const last = sql`((${bucket}) + interval '3599 seconds') at time zone ${timeZone} - interval '3599 seconds'`;
  return sql`case when extract(minute from ${first}) = 0 then ${first} else ${last} end`;
}

/** How a report names a unit of time, an hour with its offset, since a clock may show the same hour twice. */
export function labelOf(bucket: Expression<unknown>, period: Period): RawBuilder<string | null> {
  if (period.unit === undefined) return sql`null::text`;
  const format = sql.lit(FORMATS[period.unit]);
  if (period.unit !== "hour") return sql`to_char((${bucket}) at time zone ${period.timeZone}, ${format})`;
  const clock = hourOf(bucket, period);
  const offset = sql`(${clock} - (${bucket}) at time zone 'UTC')`;
  return sql`
    to_char(${clock}, ${format}) || case when ${offset} < interval '0' then '-' else '+' end
      || to_char(greatest(${offset}, -${offset}), 'HH24:MI')`;
}

const FORMATS: Record<UsageTimeUnit, string> = {
  hour: 'YYYY-MM-DD"T"HH24:MI',
  day: "YYYY-MM-DD",
  week: "YYYY-MM-DD",
  month: "YYYY-MM",
};
