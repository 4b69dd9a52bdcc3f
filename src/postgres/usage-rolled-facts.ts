import { type Expression, type RawBuilder, type SqlBool, sql } from "kysely";
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
 * are looked at, and in the end the rows of the hours that a time zone or a bound cuts. What is not summed yet comes row
 * by row, so the facts are complete to the last committed row.
 *
 * @param filters on provider and model, of the table of that name
 */
export function rolledFacts(
  schema: string,
  query: FactsQuery,
  filters: (alias: string) => readonly Expression<SqlBool>[],
): RawBuilder<Fact> {
  const isWanted = (alias: string) => sql.join([sql`true`, ...filters(alias)], sql` and `);
  const sums = (span: Span, within: RawBuilder<unknown>) => sql`
    select ${columnsOf("s")}, s.start, ${fits(span, query)} as fits
    from ${within} as w cross join lateral (
      select ${columnsOf("s")}, s.start
      from ${sql.id(schema, "usage_sums")} as s
      where s.tenant_id = w.tenant_id and s.span = ${sql.lit(span.name)} and s.start >= w.start and s.start < w.until
        and ${overlaps(span, query)} and ${isWanted("s")}
    ) as s`;
  const cut = (table: string, span: Span) => sql`(
    select distinct s.tenant_id, s.start, ${endOf(span)} as until from ${sql.ref(table)} as s where not s.fits)`;
  const rows = (within: RawBuilder<unknown>, isAmong: RawBuilder<unknown>) => sql`
    select ${rowColumns()}
    from ${within} as w cross join lateral (
      select * from ${sql.id(schema, "usage_ledger")} as u
      where u.tenant_id = w.tenant_id and ${isAmong} and ${isWanted("u")}
    ) as u`;
  return sql<Fact>`
    with recursive ${query.tenantId === undefined ? allTenants(schema) : oneTenant(schema, query.tenantId)},
    months as materialized (${sums(
      MONTH,
      sql`(
      select tenant_id, 0 as start, ${sql.lit(Number.MAX_SAFE_INTEGER)} as until from summed where position > 0)`,
    )}),
    days as materialized (${sums(DAY, cut("months", MONTH))}),
    hours as materialized (${sums(HOUR, cut("days", DAY))})
    select ${columnsOf("s")}, s.start as at from months as s where s.fits
    union all
    select ${columnsOf("s")}, s.start as at from days as s where s.fits
    union all
    select ${columnsOf("s")}, s.start as at from hours as s where s.fits
    union all
    ${rows(
      sql`(select c.*, t.position from ${cut("hours", HOUR)} as c join summed as t on t.tenant_id = c.tenant_id)`,
      // Not "position < …", so that the hour is found by its time.
      sql`u.spent_at >= w.start and u.spent_at < w.until and ${isWithin("u.spent_at", query)} and u.position + 0 < w.position`,
    )}
    union all
    ${rows(
      sql`(select * from summed where position > 0)`,
      // And here it is found by its position.
      sql`u.position >= w.position and ${isWithin("u.spent_at + 0", query)}`,
    )}
    union all
    ${rows(sql`(select * from summed where position = 0)`, isWithin("u.spent_at", query))}`;
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

/** Whether a span is a fact: it is in the report, and in one unit of time. */
function fits(span: Span, { from, to, bucket }: FactsQuery): RawBuilder<unknown> {
  const isInReport = [
    ...(from === undefined ? [] : [sql`s.start >= ${from}`]),
    ...(to === undefined ? [] : [sql`${endOf(span)} <= ${to}`]),
  ];
  if (bucket?.unit === "hour" && span !== HOUR) return sql`false`;
  const unitOf = (at: RawBuilder<unknown>) =>
    sql`date_trunc(${sql.lit(bucket?.unit)}, to_timestamp((${at})::double precision / 1000), ${bucket?.timeZone})`;
  const isInUnit =
    bucket === undefined ? [] : [sql`${unitOf(sql`s.start`)} = ${unitOf(sql`${endOf(span)} - 1`)}`];
  return sql.join([sql`true`, ...isInReport, ...isInUnit], sql` and `);
}

/** Whether some of a span is in the report. */
function overlaps(span: Span, { from, to }: FactsQuery): RawBuilder<unknown> {
  // A month has 31 days at most; one too many is looked at in vain.
  const longest = "ms" in span ? span.ms : 31 * DAY.ms;
  return sql.join(
    [
      sql`true`,
      ...(from === undefined ? [] : [sql`s.start > ${from} - ${sql.lit(longest)}`]),
      ...(to === undefined ? [] : [sql`s.start < ${to}`]),
    ],
    sql` and `,
  );
}

function isWithin(time: string, { from, to }: FactsQuery): RawBuilder<unknown> {
  return sql.join(
    [
      sql`true`,
      ...(from === undefined ? [] : [sql`${sql.raw(time)} >= ${from}`]),
      ...(to === undefined ? [] : [sql`${sql.raw(time)} < ${to}`]),
    ],
    sql` and `,
  );
}

function endOf(span: Span): RawBuilder<unknown> {
  if ("ms" in span) return sql`(s.start + ${sql.lit(span.ms)})`;
  return sql`(extract(epoch from
    (to_timestamp(s.start::double precision / 1000) at time zone 'UTC' + interval '1 month') at time zone 'UTC') * 1000)::bigint`;
}

function columnsOf(alias: string): RawBuilder<unknown> {
  return sql.join([...KEYS, ...MEASURES].map((column) => sql.ref(`${alias}.${column}`)));
}

/** A row of the ledger as a fact. */
function rowColumns(): RawBuilder<unknown> {
  const [, , ...sums] = MEASURES;
  return sql`${sql.join(KEYS.map((column) => sql.ref(`u.${column}`)))}, 1::numeric,
    (case when not u.adjustment and u.total_tokens > 0 and u.cost_total = 0 then 1 else 0 end)::numeric,
    ${sql.join(sums.map((column) => sql`${sql.ref(`u.${column}`)}::numeric`))}, u.spent_at`;
}
