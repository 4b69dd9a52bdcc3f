-- The ledger and its sums for BI tools, with times that they understand. Views run with the rights of whoever asks, so
-- row-level security binds them as it binds the tables.

-- One row for each row of the ledger.
create view {schema}.usage_rows with (security_invoker = true) as
select u.tenant_id, t.slug as tenant, u.session_id, u.root_session_id, u.usage_id, u.seq,
  to_timestamp(u.spent_at / 1000.0) as spent_at, to_timestamp(u.timestamp / 1000.0) as recorded_at,
  u.provider, u.model, u.entry_id, u.entry_type, u.role, u.cwd, u.dimensions, u.adjustment,
  u.input, u.output, u.cache_read, u.cache_write, coalesce(u.cache_write_1h, 0) as cache_write_1h,
  coalesce(u.reasoning, 0) as reasoning, u.total_tokens,
  u.cost_input, u.cost_output, u.cost_cache_read, u.cost_cache_write, u.cost_total
from {schema}.usage_ledger as u
left join {schema}.usage_tenants as t on t.tenant_id = u.tenant_id;

-- One row for each hour (UTC) in which a tenant spent something on a model, up to the last roll-up.
create view {schema}.usage_hours with (security_invoker = true) as
select s.tenant_id, t.slug as tenant, to_timestamp(s.start / 1000.0) as hour, s.provider, s.model, s.adjustment,
  s.rows, s.zero_cost_rows, s.input, s.output, s.cache_read, s.cache_write, s.cache_write_1h, s.reasoning, s.total_tokens,
  s.cost_input, s.cost_output, s.cost_cache_read, s.cost_cache_write, s.cost_total
from {schema}.usage_sums as s
join {schema}.usage_tenants as t on t.tenant_id = s.tenant_id
where s.span = 'hour';

-- The same for each day (UTC).
create view {schema}.usage_days with (security_invoker = true) as
select s.tenant_id, t.slug as tenant, (to_timestamp(s.start / 1000.0) at time zone 'UTC')::date as day,
  s.provider, s.model, s.adjustment,
  s.rows, s.zero_cost_rows, s.input, s.output, s.cache_read, s.cache_write, s.cache_write_1h, s.reasoning, s.total_tokens,
  s.cost_input, s.cost_output, s.cost_cache_read, s.cost_cache_write, s.cost_total
from {schema}.usage_sums as s
join {schema}.usage_tenants as t on t.tenant_id = s.tenant_id
where s.span = 'day';

-- One row for each session that spent something, with its calls and adjustments apart.
create view {schema}.usage_sessions with (security_invoker = true) as
select u.tenant_id, t.slug as tenant, u.session_id, u.root_session_id, max(u.cwd) as cwd,
  to_timestamp(min(u.spent_at) / 1000.0) as first_spent_at, to_timestamp(max(u.spent_at) / 1000.0) as last_spent_at,
  count(*) filter (where not u.adjustment) as calls, sum(u.total_tokens) as total_tokens, sum(u.cost_total) as cost_total,
  coalesce(sum(u.cost_total) filter (where u.adjustment), 0) as cost_adjustments
from {schema}.usage_ledger as u
left join {schema}.usage_tenants as t on t.tenant_id = u.tenant_id
group by 1, 2, 3, 4;
