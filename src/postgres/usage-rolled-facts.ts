import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
import { ONE_PROBE } from "./probe.ts";
import { SUM_COLUMNS } from "./usage-columns.ts";
import type { Fact, Facts, FactsQuery } from "./usage-facts.ts";

const KEYS = ["tenant_id", "provider", "model", "adjustment"] as const satisfies (keyof Fact)[];

const HOUR = { name: "hour", ms: 3_600_000 };
const DAY = { name: "day", ms: 86_400_000 };
const MONTH = { name: "month" };

type Span = typeof HOUR | typeof DAY | typeof MONTH;

/**
 * The facts, as far as possible from the sums of the ledger (sql/0010_rollups.sql). A month, day or hour that lies within
 * the report, and within one of its units of time, is one fact for each model. Of one that does not, the smaller spans
 * are looked at, and in the end the rows of the hours that a time zone or a bound cuts. Of a month that lies within the
 * report for the most part, it is the other part that is looked at, and taken off: `sign` is then -1. What is not
 * summed yet comes row by row, so the facts are complete to the last committed row.
 *
 * @param filters on provider and model, of the table of that name
 */
export function rolledFacts(
  schema: string,
  query: FactsQuery,
  filters: (alias: string) => readonly Expression<SqlBool>[],
): Facts {
  const isWanted = (alias: string) => all(filters(alias));
  const sums = (span: Span, within: RawBuilder<unknown>) => sql`
    select ${sumColumns}, s.start, w.sign, w.from_at, w.to_at, ${fits(span, query)} as fits,
      ${span === MONTH ? isMostlyWithin(span, query) : sql`false`} as mostly_fits
    from ${within} as w cross join lateral (
      select ${sumColumns}, s.start
      from ${sql.id(schema, "usage_sums")} as s
      where s.tenant_id = w.tenant_id and s.span = ${sql.lit(span.name)} and s.start >= w.start and s.start < w.until
        and ${isWanted("s")}
      offset ${ONE_PROBE}
    ) as s`;
  const rows = (
    columns: RawBuilder<unknown>,
    within: RawBuilder<unknown>,
    isAmong: RawBuilder<unknown>,
  ) => sql`
    select ${columns}
    from ${within} as w cross join lateral (
      select ${ledgerColumns}
      from ${sql.id(schema, "usage_ledger")} as u
      where u.tenant_id = w.tenant_id and ${isAmong} and ${isWanted("u")}
      offset ${ONE_PROBE}
    ) as u`;
  const sign = sql.ref("s.sign");
  return {
    sources: sql`
      with recursive ${query.tenantId === undefined ? allTenants(schema, query) : oneTenant(schema, query, query.tenantId)},
      months as materialized (${sums(MONTH, reported(query))}),
      days as materialized (${sums(DAY, parts(DAY, query, cut("months", MONTH, sql`case when s.mostly_fits then -1 else 1 end`)))}),
      hours as materialized (${sums(HOUR, parts(HOUR, query, cut("days", DAY, sign)))})`,
    rows: sql<Fact>`
      select ${sumColumns}, s.start as at from months as s where s.fits or s.mostly_fits
      union all
      select ${sumColumns}, s.start as at from days as s where s.fits and s.sign > 0
      union all
      select ${negativeColumns}, s.start as at from days as s where s.fits and s.sign < 0
      union all
      select ${sumColumns}, s.start as at from hours as s where s.fits and s.sign > 0
      union all
      select ${negativeColumns}, s.start as at from hours as s where s.fits and s.sign < 0
      union all
      ${rows(
        signedRowColumns,
        sql`(select c.tenant_id, c.start, c.until, c.sign, c.from_at, c.to_at, t.position
          from ${cut("hours", HOUR, sign)} as c join summed as t on t.tenant_id = c.tenant_id)`,
        // Not "position < …", so that the hour is found by its time.
        sql`u.spent_at >= w.start and u.spent_at < w.until and u.position + 0 < w.position
          and (w.sign > 0) = (${isWithin("u.spent_at", query)})`,
      )}
      union all
      ${rows(
        rowColumns,
        sql`(select tenant_id, position, from_at, to_at from summed where position > 0)`,
        // And here it is found by its position.
        sql`u.position >= w.position and ${isWithin("u.spent_at + 0", query)}`,
      )}
      union all
      ${rows(
        rowColumns,
        sql`(select tenant_id, from_at, to_at from summed where position = 0)`,
        isWithin("u.spent_at", query),
      )}`,
  };
}

/** Where the months of the report can start. */
function reported({ from, to }: FactsQuery): RawBuilder<unknown> {
  const month = sql`date_trunc('month', to_timestamp(from_at::double precision / 1000), 'UTC')`;
  const start = from === undefined ? sql`0` : sql`(extract(epoch from ${month}) * 1000)::bigint`;
  const until = to === undefined ? sql.lit(Number.MAX_SAFE_INTEGER) : sql`to_at`;
  return sql`(select tenant_id, ${start} as start, ${until} as until, 1 as sign, from_at, to_at
    from summed where position > 0)`;
}

/** What is not a fact. `sign` is that of its parts. */
function cut(table: string, span: Span, sign: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(
    select distinct s.tenant_id, s.start, ${endOf(span)} as until, ${sign} as sign, s.from_at, s.to_at
    from ${sql.ref(table)} as s where not s.fits)`;
}

/**
 * Where the smaller spans of what is cut can start: those of which some is in the report, or, to be taken off, those of
 * which some is not in it, before it or behind it. No others are looked at.
 */
function parts(
  { ms }: typeof DAY,
  { from, to }: FactsQuery,
  within: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const reaching = (bound: string) => sql`greatest(c.start, ${sql.ref(bound)} - ${sql.lit(ms - 1)})`;
  const part = (sign: 1 | -1, start: RawBuilder<unknown>, until: RawBuilder<unknown>) => sql`
    select c.tenant_id, ${start} as start, ${until} as until, c.sign, c.from_at, c.to_at
    from cut as c where c.sign = ${sql.lit(sign)}`;
  return sql`(
    with cut as materialized ${within}
    ${sql.join(
      [
        part(1, reaching("c.from_at"), sql`least(c.until, c.to_at)`),
        ...(from === undefined ? [] : [part(-1, sql`c.start`, sql`least(c.until, c.from_at)`)]),
        ...(to === undefined ? [] : [part(-1, reaching("c.to_at"), sql`c.until`)]),
      ],
      sql` union all `,
    )})`;
}

/** How far the ledger of the tenant is summed, and the bounds of the report. */
function oneTenant(schema: string, query: FactsQuery, tenantId: string): RawBuilder<unknown> {
  return sql`summed as materialized (
    select ${tenantId}::uuid as tenant_id, coalesce((
      select t.position from ${sql.id(schema, "usage_tenants")} as t where t.tenant_id = ${tenantId}), 0) as position,
      ${bounds(query)})`;
}

/** The same of all tenants that have rows in the ledger. From one to the next it is one probe. */
function allTenants(schema: string, query: FactsQuery): RawBuilder<unknown> {
  const ledger = sql.id(schema, "usage_ledger");
  return sql`
    known (tenant_id) as (
      (select u.tenant_id from ${ledger} as u order by u.tenant_id limit 1)
      union all
      select (
        select u.tenant_id from ${ledger} as u where u.tenant_id > k.tenant_id order by u.tenant_id limit 1
      ) from known as k where k.tenant_id is not null
    ),
    summed as materialized (
      select k.tenant_id, coalesce((
        select t.position from ${sql.id(schema, "usage_tenants")} as t where t.tenant_id = k.tenant_id), 0) as position,
        ${bounds(query)}
      from known as k where k.tenant_id is not null)`;
}

/** They go from step to step with the tenant: as so many sub-selects, they would take longer to begin than to run. */
function bounds({ from, to }: FactsQuery): RawBuilder<unknown> {
  const none = sql<number>`null::bigint`;
  return sql`${from ?? none} as from_at, ${to ?? none} as to_at`;
}

/** Whether a span is a fact: it is in the report and in one unit of time, or, to be taken off, not in the report. */
function fits(span: Span, query: FactsQuery): RawBuilder<unknown> {
  return sql`case when w.sign > 0 then ${all([isInReport(span, query), isInUnit(span, query)])}
    else ${isOutside(span, query)} end`;
}

/** Whether a span that is no fact is in one unit of time, and less of it outside of the report than in it. */
function isMostlyWithin(span: Span, query: FactsQuery): RawBuilder<unknown> {
  const { from, to } = query;
  const [start, end] = [sql`s.start`, endOf(span)];
  const within = sql`(least(${sql.join([end, ...(to === undefined ? [] : [sql`w.to_at`])])})
    - greatest(${sql.join([start, ...(from === undefined ? [] : [sql`w.from_at`])])}))`;
  return sql`not ${isInReport(span, query)} and ${isInUnit(span, query)} and 2 * ${within} > ${end} - ${start}`;
}

function isInReport(span: Span, { from, to }: FactsQuery): RawBuilder<unknown> {
  return all([
    ...(from === undefined ? [] : [sql`s.start >= w.from_at`]),
    ...(to === undefined ? [] : [sql`${endOf(span)} <= w.to_at`]),
  ]);
}

function isOutside(span: Span, { from, to }: FactsQuery): RawBuilder<unknown> {
  return any([
    ...(from === undefined ? [] : [sql`${endOf(span)} <= w.from_at`]),
    ...(to === undefined ? [] : [sql`s.start >= w.to_at`]),
  ]);
}

function isInUnit(span: Span, { bucket }: FactsQuery): RawBuilder<unknown> {
  if (bucket === undefined) return sql`true`;
  if (bucket.unit === "hour" && span !== HOUR) return sql`false`;
  const unitOf = (at: RawBuilder<unknown>) =>
    sql`date_trunc(${sql.lit(bucket.unit)}, to_timestamp((${at})::double precision / 1000), ${bucket.timeZone})`;
  return sql`${unitOf(sql`s.start`)} = ${unitOf(sql`${endOf(span)} - 1`)}`;
}

function isWithin(time: string, { from, to }: FactsQuery): RawBuilder<unknown> {
  return all([
    ...(from === undefined ? [] : [sql`${sql.raw(time)} >= w.from_at`]),
    ...(to === undefined ? [] : [sql`${sql.raw(time)} < w.to_at`]),
  ]);
}

function all(conditions: readonly Expression<unknown>[]): RawBuilder<unknown> {
  return conditions.length === 0 ? sql`true` : sql`(${sql.join(conditions, sql` and `)})`;
}

function any(conditions: readonly Expression<unknown>[]): RawBuilder<unknown> {
  return conditions.length === 0 ? sql`false` : sql`(${sql.join(conditions, sql` or `)})`;
}

function endOf(span: Span): RawBuilder<unknown> {
  if ("ms" in span) return sql`(s.start + ${sql.lit(span.ms)})`;
  return sql`(extract(epoch from
    (to_timestamp(s.start::double precision / 1000) at time zone 'UTC' + interval '1 month') at time zone 'UTC') * 1000)::bigint`;
}

/** Lists of columns are text: as so many nodes, they would take longer to compile than the report takes. */
const listed = (columns: readonly string[]) => sql.raw(columns.join(", "));

const sumColumns = listed([...KEYS, ...SUM_COLUMNS].map((column) => `s.${column}`));
const negativeColumns = listed([
  ...KEYS.map((column) => `s.${column}`),
  ...SUM_COLUMNS.map((column) => `-s.${column}`),
]);

const [, , ...SUMMED_COLUMNS] = SUM_COLUMNS;
const ledgerColumns = listed([...KEYS, ...SUMMED_COLUMNS, "spent_at"].map((column) => `u.${column}`));

/** A row of the ledger as a fact. */
const rowColumns = listed([
  ...KEYS.map((column) => `u.${column}`),
  "1::numeric",
  "case when not u.adjustment and u.total_tokens > 0 and u.cost_total = 0 then 1 else 0 end::numeric",
  ...SUMMED_COLUMNS.map((column) => `u.${column}::numeric`),
  "u.spent_at",
]);

const signedRowColumns = listed([
  ...KEYS.map((column) => `u.${column}`),
  "w.sign::numeric",
  "case when not u.adjustment and u.total_tokens > 0 and u.cost_total = 0 then w.sign else 0 end::numeric",
  ...SUMMED_COLUMNS.map((column) => `w.sign * u.${column}::numeric`),
  "u.spent_at",
]);
