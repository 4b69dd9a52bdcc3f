-- Budgets of tenants, and the hard ones among them, which stop a tenant from beginning new work.
--
-- Authoritative: budgets. Rebuildable: tenants.hard_budgets, tenants.exhausted_until.

create table {schema}.budgets (
  tenant_id uuid not null references {schema}.tenants on delete cascade,
  period    text collate "C" not null check (period in ('day', 'week', 'month')),
  time_zone text collate "C" not null,  -- in which the period begins
  amount    numeric not null check (amount >= 0),
  hard      boolean not null,
  primary key (tenant_id, period)
);

alter table {schema}.tenants
  add column hard_budgets    boolean not null default false, -- there are some, to be checked after each row of the ledger
  -- Until then, commits that add entries and no usage are refused.
  add column exhausted_until bigint;

do $$
declare
  added record;
begin
  for added in
    select c.relname as relation, a.attname as name
    from pg_class as c join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = '{schema}'::regnamespace and a.attnum > 0 and not a.attisdropped
      and (c.relname = 'budgets' or c.relname = 'tenants' and a.attname in ('hard_budgets', 'exhausted_until'))
  loop
    execute format('alter table {schema}.%I alter column %I set statistics 0', added.relation, added.name);
  end loop;
end
$$;

alter table {schema}.budgets enable row level security, force row level security;
create policy of_one_tenant on {schema}.budgets
  using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);

-- What a tenant spent from a point in time on: whole hours as they are summed, what comes before the first of them, and
-- what is not summed yet.
create function {schema}.spent_since(of_tenant uuid, since bigint) returns numeric
language plpgsql stable
as $$
declare
  hour bigint := since + 3599999 - (since + 3599999) % 3600000;
  summed bigint;
begin
  select r.position into summed from {schema}.usage_tenants as r where r.tenant_id = of_tenant;
  summed := coalesce(summed, 0);
  return coalesce((
    select sum(s.cost_total) from {schema}.usage_sums as s
    where s.tenant_id = of_tenant and s.span = 'hour' and s.start >= hour
  ), 0) + coalesce((
    select sum(u.cost_total) from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.spent_at >= since and u.spent_at < hour and u.position + 0 < summed
  ), 0) + coalesce((
    select sum(u.cost_total) from {schema}.usage_ledger as u
    where u.tenant_id = of_tenant and u.position >= summed and u.spent_at + 0 >= since
  ), 0);
end
$$;

-- The budgets of a tenant as they are now. `projected`: at the end of the period, if it goes on like that.
create function {schema}.budget_status(of_tenant uuid)
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
  ) as b, lateral (select {schema}.spent_since(of_tenant, b.period_start) as spent) as s;
end;

-- Stops the tenant until its longest exhausted hard budget begins anew, or lets it go on.
create function {schema}.check_budgets(of_tenant uuid) returns void
language plpgsql
as $$
declare
  until bigint;
  any_hard boolean;
begin
  perform {schema}.roll_up_usage(of_tenant); -- so that there is little to add up
  select max(b.period_end) filter (where b.spent >= b.amount), count(*) > 0 into until, any_hard
  from {schema}.budget_status(of_tenant) as b where b.hard;
  update {schema}.tenants as t set exhausted_until = until, hard_budgets = any_hard
  where t.tenant_id = of_tenant
    and (t.exhausted_until is distinct from until or t.hard_budgets is distinct from any_hard);
end
$$;
