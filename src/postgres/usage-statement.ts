import { type Kysely, type RawBuilder, sql } from "kysely";
import type { DB } from "./schema.generated.ts";
import { seesLedger } from "./sees-ledger.ts";
import type { Tables } from "./transaction.ts";
import { type DetailColumn, type FactsQuery, LEDGER_COLUMNS, usageFacts } from "./usage-facts.ts";
import { measureOf, SUMS, type Sum, type SumRow, sumColumns, sumOfFacts } from "./usage-measures.ts";
import { bucketOf, labelOf, movedBucketOf, type Period, periodRow } from "./usage-period.ts";
import { pricedModels } from "./usage-pricing.ts";
import {
  dimensionOf,
  USAGE_MEASURES,
  type UsageColumnKey,
  type UsageFilter,
  type UsageKey,
  type UsageMeasure,
  type UsageOrder,
} from "./usage-report-options.ts";

/** What a report is about; checked before. */
export interface Question {
  /** Left out: all tenants. */
  readonly tenant: { readonly tenantId: string; readonly slug: string } | undefined;
  readonly period: Period;
  /** Without the unit of time. */
  readonly keys: readonly UsageKey[];
  readonly where: UsageFilter;
  readonly orderBy: UsageOrder | undefined;
  readonly top: number | undefined;
  readonly cumulative: boolean;
}

/** The total, of place 0, or a row of the report. */
export interface ReportRow extends SumRow {
  readonly place: number;
  readonly is_remainder: boolean;
  /** Of the unit of time. */
  readonly label: string | null;
  /** Of each key. */
  readonly [key: `key_${number}`]: string | null;
  /** The rest is told with the total only. */
  readonly from_at: number | null;
  readonly to_at: number | null;
  readonly previous_at: number | null;
  readonly sees_all: boolean | null;
}

/**
 * Everything in one statement: facts are summed to groups in units of time, groups to what is shown, and that is
 * sorted; the groups give the total too.
 */
export function reportStatement(
  tables: Pick<Tables, "db" | "schema">,
  question: Question,
): RawBuilder<ReportRow> {
  const { db, schema } = tables;
  const { period, keys } = question;
  const names = keys.map((_, index) => `key_${index}`);
  const sums = sumColumns("c", period.compare);
  const steps = [
    sql`period as materialized (${periodRow(period)})`,
    sql`groups as materialized (${groups(tables, question)})`,
  ];
  const totals = sql`
    select 0 as place, false as is_remainder, null as label, ${list(names.map(() => sql`null`))}
      ${sql.join(sums)}, p.from_at, p.to_at, p.previous_at, ${question.tenant === undefined ? seesLedger(schema) : sql`true`} as sees_all
    from period as p, (${total(period)}) as c`;
  if (names.length === 0 && period.unit === undefined) return sql`with ${sql.join(steps)} ${totals}`;
  if (question.top !== undefined) steps.push(sql`ranked as (${ranked(names)})`);
  steps.push(sql`cells as (${cells(names, question)})`);
  if (question.cumulative) steps.push(sql`running as (${running(names, period)})`);
  const labels = keys.map(
    (key, index) => sql`${shownKey(db, key, question, `c.key_${index}`)} as ${sql.id(`key_${index}`)}`,
  );
  return sql`
    with ${sql.join(steps)}
    select row_number() over (order by ${sql.join(order(question))}) as place, c.is_remainder,
      ${labelOf(sql`c.bucket`, period)} as label, ${list(labels)} ${sql.join(sums)},
      null::bigint as from_at, null::bigint as to_at, null::bigint as previous_at, null::boolean as sees_all
    from ${sql.ref(question.cumulative ? "running" : "cells")} as c
    union all ${totals}
    order by place`;
}

/** Of each period, sums by unit of time and by keys. */
function groups(tables: Pick<Tables, "db" | "schema">, question: Question): RawBuilder<unknown> {
  const { tenant, period, keys, where } = question;
  const details = new Set([...keys, ...Object.keys(where)].flatMap(detailOf));
  const bound = (column: string) => sql<number>`(select ${sql.ref(`p.${column}`)} from period as p)`;
  const query: FactsQuery = {
    tenantId: tenant?.tenantId,
    from: period.from && bound("from_at"),
    to: period.to && bound("to_at"),
    bucket: period.unit && { unit: period.unit, timeZone: period.timeZone },
    details,
    where,
  };
  const columns = keys.map((key, index) => sql`${factColumn(key, question)} as ${sql.id(`key_${index}`)}`);
  const positions = sql.join(["bucket", ...columns].map((_, index) => sql.lit(index + 2)));
  const facts = usageFacts(tables, query);
  const all = usageFacts(tables, { ...query, from: bound("previous_at"), bucket: undefined });
  const priced = pricedModels(tables.db, period.compare ? sql`${all.sources} ${all.rows}` : facts.rows);
  const sums = SUMS.map((sum) => sumOfFacts(sum, priced));
  const current = sql`
    ${facts.sources}
    select false as is_previous, ${bucketOf(sql`f.at`, period)} as bucket, ${list(columns)} ${sql.join(sums)}
    from (${facts.rows}) as f
    group by ${positions} having sum(f.rows) <> 0`;
  if (!period.compare) return current;
  const before = usageFacts(tables, {
    ...query,
    from: bound("previous_at"),
    to: bound("from_at"),
    bucket: undefined,
    // Moved forward, it may lie in another unit of time than what is near it.
    details: period.unit === undefined ? details : new Set([...details, "at"]),
  });
  return sql`
    (${current})
    union all
    (${before.sources}
    select true, ${movedBucketOf(sql`f.at`, period)}, ${list(columns)} ${sql.join(sums)}
    from (${before.rows}) as f, period as p
    group by ${positions} having sum(f.rows) <> 0)`;
}

/** Groups with their rank by what they cost in all of the period. */
function ranked(names: readonly string[]): RawBuilder<unknown> {
  const keys = sql.join(names.map((name) => sql.ref(name)));
  return sql`
    select s.*, dense_rank() over (order by s.spent desc, ${keys}) as rank
    from (
      select g.*, coalesce(sum(g.cost_total) filter (where not g.is_previous) over (partition by ${keys}), 0) as spent
      from groups as g
    ) as s`;
}

/** What is shown of the groups, the period before beside the period. */
function cells(names: readonly string[], { period, top }: Question): RawBuilder<unknown> {
  const { compare, unit } = period;
  if (top === undefined && !compare) {
    const columns = sql.join(["bucket", ...names, ...SUMS].map((name) => sql.ref(`g.${name}`)));
    return sql`select ${columns}, false as is_remainder from groups as g`;
  }
  const isRemainder = top === undefined ? sql`false` : sql`g.rank > ${top}`;
  const keys = names.map(
    (name) => sql`case when not (${isRemainder}) then ${sql.ref(`g.${name}`)} end as ${sql.id(name)}`,
  );
  const positions = sql.join(["bucket", "is_remainder", ...names].map((_, index) => sql.lit(index + 1)));
  return sql`
    select g.bucket, ${isRemainder} as is_remainder, ${list(keys)} ${sql.join(sumsOfGroups(compare))}
    from ${sql.ref(top === undefined ? "groups" : "ranked")} as g
    where ${unit === undefined ? sql`true` : sql`g.bucket is not null`}
    group by ${positions}`;
}

function total({ compare }: Period): RawBuilder<unknown> {
  return sql`select ${sql.join(sumsOfGroups(compare))} from groups as g`;
}

function sumsOfGroups(compare: boolean): RawBuilder<unknown>[] {
  if (!compare) return SUMS.map((sum) => sumOfGroups(sum, sql``, sum));
  return SUMS.flatMap((sum) => [
    sumOfGroups(sum, sql`filter (where not g.is_previous)`, sum),
    sumOfGroups(sum, sql`filter (where g.is_previous)`, `previous_${sum}`),
  ]);
}

function sumOfGroups(sum: Sum, filter: RawBuilder<unknown>, name: string): RawBuilder<unknown> {
  return sql`coalesce(sum(${sql.ref(`g.${sum}`)}) ${filter}, 0) as ${sql.id(name)}`;
}

/** Sums from the beginning on, for each group by itself. */
function running(names: readonly string[], { compare }: Period): RawBuilder<unknown> {
  const all = compare ? SUMS.flatMap((sum) => [sum, `previous_${sum}`]) : SUMS;
  const keys = ["is_remainder", ...names].map((name) => sql.ref(`c.${name}`));
  return sql`
    select c.bucket, ${sql.join(keys)},
      ${sql.join(all.map((sum) => sql`sum(${sql.ref(`c.${sum}`)}) over so_far as ${sql.id(sum)}`))}
    from cells as c
    window so_far as (partition by ${sql.join(keys)} order by c.bucket)`;
}

/** What remains stands last: of its unit of time, as long as those stay together. */
function order({ keys, period, orderBy }: Question): RawBuilder<unknown>[] {
  const time = sql`c.bucket`;
  const remainder = sql`c.is_remainder`;
  const cost = sql`c.cost_total desc`;
  const names = keys.map((_, index) => sql.ref(`c.key_${index}`));
  const rest = [cost, ...names.map((name) => sql`${name} nulls last`)];
  if (orderBy === undefined) return [time, remainder, ...rest];
  const { column } = orderBy;
  const index = keys.indexOf(column as UsageKey);
  const isMeasure = (USAGE_MEASURES as readonly string[]).includes(column);
  const direction = sql.raw(orderBy.direction ?? (isMeasure ? "desc" : "asc"));
  if (column === period.unit) return [sql`${time} ${direction}`, remainder, ...rest];
  const by = isMeasure ? measureOf(column as UsageMeasure, "c") : sql.ref(`c.key_${index}`);
  return [remainder, sql`${by} ${direction} nulls last`, time, ...rest];
}

/** What facts are grouped by. */
function factColumn(key: UsageKey, { tenant }: Question): RawBuilder<unknown> {
  if (key === "tenant") return tenant === undefined ? sql`f.tenant_id` : sql`${tenant.slug}::text`;
  const dimension = dimensionOf(key);
  if (dimension === undefined) return sql.ref(`f.${LEDGER_COLUMNS[key as UsageColumnKey]}`);
  return sql`(f.dimensions ->> ${dimension}::text) collate "C"`;
}

/** A tenant by its slug, where analysts find it too. */
function shownKey(db: Kysely<DB>, key: UsageKey, { tenant }: Question, name: string): RawBuilder<unknown> {
  const value = sql.ref(name);
  if (key !== "tenant" || tenant !== undefined) return value;
  const slug = db
    .selectFrom("usage_tenants as t")
    .select("t.slug")
    .where("t.tenant_id", "=", value as RawBuilder<string>);
  return sql`coalesce(${slug}, ${value}::text)`;
}

function detailOf(key: string): DetailColumn[] {
  if (key === "dimensions" || dimensionOf(key) !== undefined) return ["dimensions"];
  switch (key) {
    case "tenant":
    case "provider":
    case "model":
      return [];
    default:
      return [LEDGER_COLUMNS[key as Exclude<UsageColumnKey, "provider" | "model">]];
  }
}

/** Columns with a comma behind each, before others. */
function list(columns: readonly RawBuilder<unknown>[]): RawBuilder<unknown> {
  return columns.length === 0 ? sql`` : sql`${sql.join(columns)},`;
}
