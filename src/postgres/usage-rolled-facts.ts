import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
import { ONE_PROBE } from "./probe.ts";
import type { Fact, FactsQuery } from "./usage-facts.ts";

/** What a report adds up, in sums and in facts. */
const MEASURES = [
  "rows",
  "zero_cost_rows",
  "input",
  "output",
  "cache_read",
  "cache_write",
  "cache_write_1h",
  "reasoning",
  "total_tokens",
  "cost_input",
  "cost_output",
  "cost_cache_read",
  "cost_cache_write",
  "cost_total",
] as const satisfies (keyof Fact)[];

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
): RawBuilder<Fact> {
  const isWanted = (alias: string) => all(filters(alias));
  const sums = (span: Span, within: RawBuilder<unknown>) => sql`
    select ${sumColumns}, s.start, w.sign, ${fits(span, query)} as fits
    from ${within} as w cross join lateral (
      select ${sumColumns}, s.start
      from ${sql.id(schema, "usage_sums")} as s
      where s.tenant_id = w.tenant_id and s.span = ${sql.lit(span.name)} and s.start >= w.start and s.start < w.until
        and ${overlaps(span, query)} and ${isWanted("s")}
      offset ${ONE_PROBE}
    ) as s`;
  const cut = (table: string, span: Span, sign: RawBuilder<unknown>) => sql`(
    select distinct s.tenant_id, s.start, ${endOf(span)} as until, ${sign} as sign
    from ${sql.ref(table)} as s where not s.fits)`;
  const rows = (within: RawBuilder<unknown>, isAmong: RawBuilder<unknown>) => sql`
    select ${rowColumns}
    from ${within} as w cross join lateral (
      select ${ledgerColumns}
      from ${sql.id(schema, "usage_ledger")} as u
      where u.tenant_id = w.tenant_id and ${isAmong} and ${isWanted("u")}
      offset ${ONE_PROBE}
    ) as u`;
  const sign = sql.ref("s.sign");
  return sql<Fact>`
    with recursive ${query.tenantId === undefined ? allTenants(schema) : oneTenant(schema, query.tenantId)},
    months as materialized (
      select s.*, ${isMostlyWithin(MONTH, query)} as mostly_fits
      from (${sums(MONTH, reported(query))}) as s
    ),
    days as materialized (${sums(DAY, cut("months", MONTH, sql`case when s.mostly_fits then -1 else 1 end`))}),
    hours as materialized (${sums(HOUR, cut("days", DAY, sign))})
    select ${sumColumns}, s.start as at from months as s where s.fits or s.mostly_fits
    union all
    select ${signedColumns}, s.start as at from days as s where s.fits
    union all
    select ${signedColumns}, s.start as at from hours as s where s.fits
    union all
    ${rows(
      sql`(select c.tenant_id, c.start, c.until, c.sign, t.position
        from ${cut("hours", HOUR, sign)} as c join summed as t on t.tenant_id = c.tenant_id)`,
      // Not "position < …", so that the hour is found by its time.
      sql`u.spent_at >= w.start and u.spent_at < w.until and u.position + 0 < w.position
        and (w.sign > 0) = (${isWithin("u.spent_at", query)})`,
    )}
    union all
    ${rows(
      sql`(select tenant_id, position, 1 as sign from summed where position > 0)`,
      // And here it is found by its position.
      sql`u.position >= w.position and ${isWithin("u.spent_at + 0", query)}`,
    )}
    union all
    ${rows(sql`(select tenant_id, 1 as sign from summed where position = 0)`, isWithin("u.spent_at", query))}`;
}

/** Where the months of the report can start. */
function reported({ from, to }: FactsQuery): RawBuilder<unknown> {
  const start = from === undefined ? sql`0` : sql`${from} - ${sql.lit(31 * DAY.ms)}`;
  const until = to === undefined ? sql.lit(Number.MAX_SAFE_INTEGER) : to;
  return sql`(select tenant_id, ${start} as start, ${until} as until, 1 as sign from summed where position > 0)`;
}

/** How far the ledger of the tenant is summed. */
function oneTenant(schema: string, tenantId: string): RawBuilder<unknown> {
  return sql`summed as materialized (
    select ${tenantId}::uuid as tenant_id, coalesce((
      select t.position from ${sql.id(schema, "usage_tenants")} as t where t.tenant_id = ${tenantId}), 0) as position)`;
}

/** The same of all tenants that have rows in the ledger. From one to the next it is one probe. */
function allTenants(schema: string): RawBuilder<unknown> {
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
        select t.position from ${sql.id(schema, "usage_tenants")} as t where t.tenant_id = k.tenant_id), 0) as position
      from known as k where k.tenant_id is not null)`;
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
  const within = sql`(least(${sql.join([end, ...(to === undefined ? [] : [to])])})
    - greatest(${sql.join([start, ...(from === undefined ? [] : [from])])}))`;
  return sql`not s.fits and ${isInUnit(span, query)} and 2 * ${within} > ${end} - ${start}`;
}

function isInReport(span: Span, { from, to }: FactsQuery): RawBuilder<unknown> {
  return all([
    ...(from === undefined ? [] : [sql`s.start >= ${from}`]),
    ...(to === undefined ? [] : [sql`${endOf(span)} <= ${to}`]),
  ]);
}

function isOutside(span: Span, { from, to }: FactsQuery): RawBuilder<unknown> {
  return any([
    ...(from === undefined ? [] : [sql`${endOf(span)} <= ${from}`]),
    ...(to === undefined ? [] : [sql`s.start >= ${to}`]),
  ]);
}

function isInUnit(span: Span, { bucket }: FactsQuery): RawBuilder<unknown> {
  if (bucket === undefined) return sql`true`;
  if (bucket.unit === "hour" && span !== HOUR) return sql`false`;
  const unitOf = (at: RawBuilder<unknown>) =>
    sql`date_trunc(${sql.lit(bucket.unit)}, to_timestamp((${at})::double precision / 1000), ${bucket.timeZone})`;
  return sql`${unitOf(sql`s.start`)} = ${unitOf(sql`${endOf(span)} - 1`)}`;
}

/** Whether some of a span is in the report, or, to be taken off, not in it. */
function overlaps(span: Span, query: FactsQuery): RawBuilder<unknown> {
  return sql`case when w.sign > 0 then not (${isOutside(span, query)}) else not (${isInReport(span, query)}) end`;
}

function isWithin(time: string, { from, to }: FactsQuery): RawBuilder<unknown> {
  return all([
    ...(from === undefined ? [] : [sql`${sql.raw(time)} >= ${from}`]),
    ...(to === undefined ? [] : [sql`${sql.raw(time)} < ${to}`]),
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

const sumColumns = listed([...KEYS, ...MEASURES].map((column) => `s.${column}`));
const signedColumns = listed([
  ...KEYS.map((column) => `s.${column}`),
  ...MEASURES.map((column) => `s.sign * s.${column}`),
]);

const [, , ...SUMMED_COLUMNS] = MEASURES;
const ledgerColumns = listed([...KEYS, ...SUMMED_COLUMNS, "spent_at"].map((column) => `u.${column}`));

/** A row of the ledger as a fact. */
const rowColumns = listed([
  ...KEYS.map((column) => `u.${column}`),
  "w.sign::numeric",
  "case when not u.adjustment and u.total_tokens > 0 and u.cost_total = 0 then w.sign else 0 end::numeric",
  ...SUMMED_COLUMNS.map((column) => `w.sign * u.${column}::numeric`),
  "u.spent_at",
]);
