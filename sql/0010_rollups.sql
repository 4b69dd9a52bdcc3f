-- Sums of the ledger by hour, day and month, so that a report over many tenants or months reads few rows, and how far
-- the ledger is in them. They follow the ledger: no commit writes them.
--
-- Authoritative: nothing. `rebuild_usage` makes all of it anew from usage_ledger.

-- How far a tenant's ledger is summed. The slug is here for analysts, who do not see `tenants`.
create table {schema}.usage_tenants (
  tenant_id uuid primary key references {schema}.tenants on delete cascade,
  slug      text collate "C" not null,
  position  bigint not null             -- rows of the ledger below it are in the sums
);

-- Numeric throughout, so that no sum can be too large. The key carries the sums, so that a report reads pages of its
-- own tenant only.
create table {schema}.usage_sums (
  tenant_id        uuid not null references {schema}.tenants on delete cascade,
  span             text collate "C" not null, -- hour, day or month, in UTC
  start            bigint not null,           -- of the span
  provider         text collate "C" not null,
  model            text collate "C" not null,
  adjustment       boolean not null,
  rows             numeric not null,
  zero_cost_rows   numeric not null,          -- calls that have tokens and cost nothing
  input            numeric not null,
  output           numeric not null,
  cache_read       numeric not null,
  cache_write      numeric not null,
  cache_write_1h   numeric not null,
  reasoning        numeric not null,
  total_tokens     numeric not null,
  cost_input       numeric not null,
  cost_output      numeric not null,
  cost_cache_read  numeric not null,
  cost_cache_write numeric not null,
  cost_total       numeric not null
);

-- What a model costs at all.
create index usage_sums_priced on {schema}.usage_sums (tenant_id, provider, model) where span = 'month' and cost_total <> 0;
alter table {schema}.usage_sums add primary key (tenant_id, span, start, provider, model, adjustment)
  include (rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
    cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total);

do $$
declare
  added record;
begin
  for added in
    select c.relname as relation, a.attname as name
    from pg_class as c join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = '{schema}'::regnamespace and c.relname in ('usage_tenants', 'usage_sums')
      and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table {schema}.%I alter column %I set statistics 0', added.relation, added.name);
  end loop;
end
$$;

alter table {schema}.usage_tenants enable row level security, force row level security;
alter table {schema}.usage_sums enable row level security, force row level security;
create policy of_one_tenant on {schema}.usage_tenants
  using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);
create policy of_one_tenant on {schema}.usage_sums
  using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);

-- The start of the span, in UTC, that a point in time is in.
create function {schema}.span_start(span text, at bigint) returns bigint
language sql immutable strict parallel safe
return case span
  when 'hour' then at - at % 3600000
  when 'day' then at - at % 86400000
  else (extract(epoch from date_trunc('month', to_timestamp(at / 1000.0) at time zone 'UTC')) * 1000)::bigint
end;

-- Sums of a tenant's ledger from one position to another, of all sessions or of one. Planned for what is asked.
create function {schema}.sum_usage(of_tenant uuid, of_session text, from_position bigint, to_position bigint)
returns setof {schema}.usage_sums
language plpgsql stable
as $$
begin
  return query execute
    $query$
    with hourly as (
      select u.spent_at - u.spent_at % 3600000 as hour, u.provider, u.model, u.adjustment,
        count(*)::numeric as rows,
        (count(*) filter (where not u.adjustment and u.total_tokens > 0 and u.cost_total = 0))::numeric as zero_cost_rows,
        sum(u.input) as input, sum(u.output) as output, sum(u.cache_read) as cache_read,
        sum(u.cache_write) as cache_write, coalesce(sum(u.cache_write_1h), 0) as cache_write_1h,
        coalesce(sum(u.reasoning), 0) as reasoning, sum(u.total_tokens) as total_tokens,
        sum(u.cost_input) as cost_input, sum(u.cost_output) as cost_output, sum(u.cost_cache_read) as cost_cache_read,
        sum(u.cost_cache_write) as cost_cache_write, sum(u.cost_total) as cost_total
      from {schema}.usage_ledger as u
      where u.tenant_id = $1 and u.position >= $3 and u.position < $4
    $query$
    || case when of_session is null then '' else 'and u.session_id = $2' end ||
    $query$
      group by 1, 2, 3, 4
    )
    select $1, span, {schema}.span_start(span, h.hour), h.provider, h.model, h.adjustment,
      sum(h.rows), sum(h.zero_cost_rows), sum(h.input), sum(h.output), sum(h.cache_read), sum(h.cache_write),
      sum(h.cache_write_1h), sum(h.reasoning), sum(h.total_tokens), sum(h.cost_input), sum(h.cost_output),
      sum(h.cost_cache_read), sum(h.cost_cache_write), sum(h.cost_total)
    from hourly as h, unnest(array['hour', 'day', 'month']) as span
    group by 1, 2, 3, 4, 5, 6
    $query$
    using of_tenant, of_session, from_position, to_position;
end
$$;

-- Adds what is new and settled in a tenant's ledger to its sums; returns how many rows of the ledger that were. Of two
-- at once, one waits.
create function {schema}.roll_up_usage(of_tenant uuid) returns bigint
language plpgsql
as $$
declare
  summed bigint;
  horizon bigint;
  added bigint;
begin
  insert into {schema}.usage_tenants (tenant_id, slug, position)
  select t.tenant_id, t.slug, 0 from {schema}.tenants as t where t.tenant_id = of_tenant and not t.deleting
  on conflict do nothing;
  select r.position into summed from {schema}.usage_tenants as r where r.tenant_id = of_tenant for update;
  if not found then return 0; end if;
  horizon := {schema}.ledger_horizon();
  if not exists (
    select from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.position >= summed and u.position < horizon
  ) then return 0; end if;
  with added_sums as materialized (
    select tenant_id, span, start, provider, model, adjustment,
      rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
      cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
    from {schema}.sum_usage(of_tenant, null, summed, horizon)
  ), written as (
    insert into {schema}.usage_sums as s (tenant_id, span, start, provider, model, adjustment,
      rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
      cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total)
    select tenant_id, span, start, provider, model, adjustment,
      rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
      cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
    from added_sums
    on conflict (tenant_id, span, start, provider, model, adjustment) do update
    set
      rows = s.rows + excluded.rows, zero_cost_rows = s.zero_cost_rows + excluded.zero_cost_rows,
      input = s.input + excluded.input, output = s.output + excluded.output,
      cache_read = s.cache_read + excluded.cache_read, cache_write = s.cache_write + excluded.cache_write,
      cache_write_1h = s.cache_write_1h + excluded.cache_write_1h, reasoning = s.reasoning + excluded.reasoning,
      total_tokens = s.total_tokens + excluded.total_tokens, cost_input = s.cost_input + excluded.cost_input,
      cost_output = s.cost_output + excluded.cost_output,
      cost_cache_read = s.cost_cache_read + excluded.cost_cache_read,
      cost_cache_write = s.cost_cache_write + excluded.cost_cache_write,
      cost_total = s.cost_total + excluded.cost_total
  )
  select sum(rows) into added from added_sums where span = 'hour';
  update {schema}.usage_tenants as r set position = horizon where r.tenant_id = of_tenant;
  return added;
end
$$;

-- Before a session is deleted: takes out of the sums what it has in them.
create function {schema}.forget_usage(of_tenant uuid, of_session text) returns void
language plpgsql
as $$
declare
  summed bigint;
  gone {schema}.usage_sums;
begin
  if not exists (
    select from {schema}.usage_ledger as u where u.tenant_id = of_tenant and u.session_id = of_session
  ) then return; end if;
  select r.position into summed from {schema}.usage_tenants as r where r.tenant_id = of_tenant for update;
  if not found then return; end if;
  for gone in select * from {schema}.sum_usage(of_tenant, of_session, 0, summed) loop
    update {schema}.usage_sums as s
    set
      rows = s.rows - gone.rows, zero_cost_rows = s.zero_cost_rows - gone.zero_cost_rows,
      input = s.input - gone.input, output = s.output - gone.output, cache_read = s.cache_read - gone.cache_read,
      cache_write = s.cache_write - gone.cache_write, cache_write_1h = s.cache_write_1h - gone.cache_write_1h,
      reasoning = s.reasoning - gone.reasoning, total_tokens = s.total_tokens - gone.total_tokens,
      cost_input = s.cost_input - gone.cost_input, cost_output = s.cost_output - gone.cost_output,
      cost_cache_read = s.cost_cache_read - gone.cost_cache_read,
      cost_cache_write = s.cost_cache_write - gone.cost_cache_write, cost_total = s.cost_total - gone.cost_total
    where s.tenant_id = of_tenant and s.span = gone.span and s.start = gone.start and s.provider = gone.provider
      and s.model = gone.model and s.adjustment = gone.adjustment;
    delete from {schema}.usage_sums as s
    where s.tenant_id = of_tenant and s.span = gone.span and s.start = gone.start and s.provider = gone.provider
      and s.model = gone.model and s.adjustment = gone.adjustment and s.rows = 0;
  end loop;
end
$$;

-- Makes a tenant's sums anew; returns how many rows of the ledger are in them.
create function {schema}.rebuild_usage(of_tenant uuid) returns bigint
language plpgsql
as $$
begin
  perform from {schema}.usage_tenants as r where r.tenant_id = of_tenant for update;
  delete from {schema}.usage_sums as s where s.tenant_id = of_tenant;
  update {schema}.usage_tenants as r set position = 0 where r.tenant_id = of_tenant;
  return {schema}.roll_up_usage(of_tenant);
end
$$;
