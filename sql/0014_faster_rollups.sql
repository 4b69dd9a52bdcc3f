-- The ledger is summed by hour; days are the sums of their hours, and months of their days.
--
-- Authoritative: nothing.

-- Sums of a tenant's ledger from one position to another, of all sessions or of one. Planned for what is asked, and to
-- sort before it groups, which takes less memory than a hash of so many sums. What is summed was mostly written a moment
-- ago, so its pages are in memory, and to ask for them ahead would take longer than to read them.
create or replace function {schema}.sum_usage(of_tenant uuid, of_session text, from_position bigint, to_position bigint)
returns setof {schema}.usage_sums
language plpgsql stable
set enable_sort = on
set enable_hashagg = off
set effective_io_concurrency = 0
as $$
begin
  return query execute
    $query$
    with hours as materialized (
      select u.spent_at - u.spent_at % 3600000 as start, u.provider, u.model, u.adjustment,
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
    ), days as materialized (
      select h.start - h.start % 86400000 as start, h.provider, h.model, h.adjustment,
        sum(h.rows) as rows, sum(h.zero_cost_rows) as zero_cost_rows, sum(h.input) as input, sum(h.output) as output,
        sum(h.cache_read) as cache_read, sum(h.cache_write) as cache_write, sum(h.cache_write_1h) as cache_write_1h,
        sum(h.reasoning) as reasoning, sum(h.total_tokens) as total_tokens, sum(h.cost_input) as cost_input,
        sum(h.cost_output) as cost_output, sum(h.cost_cache_read) as cost_cache_read,
        sum(h.cost_cache_write) as cost_cache_write, sum(h.cost_total) as cost_total
      from hours as h
      group by 1, 2, 3, 4
    )
    select $1, 'hour', h.start, h.provider, h.model, h.adjustment,
      h.rows, h.zero_cost_rows, h.input, h.output, h.cache_read, h.cache_write, h.cache_write_1h, h.reasoning,
      h.total_tokens, h.cost_input, h.cost_output, h.cost_cache_read, h.cost_cache_write, h.cost_total
    from hours as h
    union all
    select $1, 'day', d.start, d.provider, d.model, d.adjustment,
      d.rows, d.zero_cost_rows, d.input, d.output, d.cache_read, d.cache_write, d.cache_write_1h, d.reasoning,
      d.total_tokens, d.cost_input, d.cost_output, d.cost_cache_read, d.cost_cache_write, d.cost_total
    from days as d
    union all
    select $1, 'month', {schema}.span_start('month', d.start), d.provider, d.model, d.adjustment,
      sum(d.rows), sum(d.zero_cost_rows), sum(d.input), sum(d.output), sum(d.cache_read), sum(d.cache_write),
      sum(d.cache_write_1h), sum(d.reasoning), sum(d.total_tokens), sum(d.cost_input), sum(d.cost_output),
      sum(d.cost_cache_read), sum(d.cost_cache_write), sum(d.cost_total)
    from days as d
    group by 1, 2, 3, 4, 5, 6
    $query$
    using of_tenant, of_session, from_position, to_position;
end
$$;

-- Adds what is new and settled in a tenant's ledger to its sums; returns how many rows of the ledger that were. Of two
-- at once, one waits.
create or replace function {schema}.roll_up_usage(of_tenant uuid) returns bigint
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
  execute
    $query$
    with added as materialized (
      select tenant_id, span, start, provider, model, adjustment,
        rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
        cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
      from {schema}.sum_usage($1, null, $2, $3)
    ), written as (
      insert into {schema}.usage_sums as s (tenant_id, span, start, provider, model, adjustment,
        rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
        cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total)
      select tenant_id, span, start, provider, model, adjustment,
        rows, zero_cost_rows, input, output, cache_read, cache_write, cache_write_1h, reasoning, total_tokens,
        cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total
      from added
    $query$
    -- The first time there is nothing to look for.
    || case when summed = 0 then '' else
    $query$
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
    $query$ end ||
    ') select sum(rows) from added where span = ''hour'''
    into added using of_tenant, summed, horizon;
  update {schema}.usage_tenants as r set position = horizon where r.tenant_id = of_tenant;
  return added;
end
$$;
