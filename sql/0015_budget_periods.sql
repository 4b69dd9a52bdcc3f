-- What is spent of a budget ends with its period: a response whose clock was ahead belongs to a later one.
--
-- Authoritative: nothing.

-- What a tenant spent from a point in time to another, a day later or more: whole hours as they are summed, what comes
-- before the first and behind the last of them, and what is not summed yet.
create function {schema}.spent_between(of_tenant uuid, since bigint, until bigint) returns numeric
language plpgsql stable
as $$
declare
  first_hour bigint := since + 3599999 - (since + 3599999) % 3600000;
  hours_end bigint := until - until % 3600000;
  summed bigint;
begin
  select r.position into summed from {schema}.usage_tenants as r where r.tenant_id = of_tenant;
  summed := coalesce(summed, 0);
  return coalesce((
    select sum(s.cost_total) from {schema}.usage_sums as s
    where s.tenant_id = of_tenant and s.span = 'hour' and s.start >= first_hour and s.start < hours_end
  ), 0) + coalesce((
    select sum(u.cost_total) from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.spent_at >= since and u.spent_at < first_hour and u.position + 0 < summed
  ), 0) + coalesce((
    select sum(u.cost_total) from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.spent_at >= hours_end and u.spent_at < until and u.position + 0 < summed
  ), 0) + coalesce((
    select sum(u.cost_total) from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.position >= summed and u.spent_at + 0 >= since and u.spent_at + 0 < until
  ), 0);
end
$$;

create or replace function {schema}.budget_status(of_tenant uuid)
returns table (
  period text, time_zone text, amount numeric, hard boolean, period_start bigint, period_end bigint, spent numeric, projected numeric
)
language sql stable
begin atomic
  select b.period, b.time_zone, b.amount, b.hard, b.period_start, b.period_end, s.spent,
    round(s.spent * (b.period_end - b.period_start) / greatest(b.now - b.period_start, 1), 12)
  from (
    select b.period, b.time_zone, b.amount, b.hard,
      (extract(epoch from date_trunc(b.period, now.at, b.time_zone)) * 1000)::bigint as period_start,
      (extract(epoch from (date_trunc(b.period, now.at at time zone b.time_zone) + ('1 ' || b.period)::interval)
        at time zone b.time_zone) * 1000)::bigint as period_end,
      (extract(epoch from now.at) * 1000)::bigint as now
    from {schema}.budgets as b, (select clock_timestamp() as at) as now
    where b.tenant_id = of_tenant
  ) as b, lateral (select {schema}.spent_between(of_tenant, b.period_start, b.period_end) as spent) as s;
end;

drop function {schema}.spent_since(uuid, bigint);
