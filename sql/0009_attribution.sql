-- Who spent it, when and on what: written down with each row of the ledger at its commit, and never worked out of
-- payloads later.
--
-- Authoritative: all that is added here.
--
-- With a large ledger this rewrites `usage_ledger` once and locks it meanwhile.

-- The owner is bound by row-level security too, and has to see all rows now.
alter table {schema}.tenants no force row level security;
alter table {schema}.sessions no force row level security;
alter table {schema}.entries no force row level security;
alter table {schema}.usage_ledger no force row level security;

-- Keys of `sessions.metadata` whose values go with each row of the ledger.
alter table {schema}.tenants add column billing_dimensions text[] not null default '{}';

-- The session that began the family of forks: the parent's, and the session's own id without a parent. A parent that is
-- not stored is taken for the first of its family.
alter table {schema}.sessions add column root_session_id text collate "C";
with recursive family (tenant_id, session_id, root_session_id) as (
  select s.tenant_id, s.session_id, coalesce(s.parent_session_id, s.session_id)
  from {schema}.sessions as s
  where not exists (
    select from {schema}.sessions as p where p.tenant_id = s.tenant_id and p.session_id = s.parent_session_id)
  union all
  select s.tenant_id, s.session_id, f.root_session_id
  from family as f
  join {schema}.sessions as s on s.tenant_id = f.tenant_id and s.parent_session_id = f.session_id
)
update {schema}.sessions as s set root_session_id = f.root_session_id
from family as f where f.tenant_id = s.tenant_id and f.session_id = s.session_id;
update {schema}.sessions set root_session_id = session_id where root_session_id is null; -- parents in a circle
alter table {schema}.sessions alter column root_session_id set not null;

alter table {schema}.usage_ledger
  add column provider        text collate "C" not null default 'unknown',
  add column model           text collate "C" not null default 'unknown',
  add column spent_at        bigint,      -- when the response was there
  add column entry_type      text collate "C" not null default 'unknown',
  add column role            text collate "C" not null default 'unknown',
  add column root_session_id text collate "C",
  add column cwd             text collate "C",
  add column dimensions      jsonb not null default '{}',
  -- Of the transaction that wrote the row: what has a position below that of every transaction still running will stay
  -- as it is, so a reader who goes on from there misses nothing and sees nothing twice.
  add column position        bigint not null default 0;

update {schema}.usage_ledger as u
set provider = coalesce(left(e.provider, 200), 'unknown'), model = coalesce(left(e.model, 200), 'unknown'),
  entry_type = coalesce(e.type, 'unknown'), role = coalesce(left(e.role, 200), 'unknown'),
  spent_at = coalesce(e.timestamp, u.timestamp), root_session_id = s.root_session_id, cwd = s.cwd
from {schema}.sessions as s
left join {schema}.entries as e on e.tenant_id = s.tenant_id and e.session_id = s.session_id
where s.tenant_id = u.tenant_id and s.session_id = u.session_id and e.entry_id = u.entry_id;
update {schema}.usage_ledger as u
set spent_at = u.timestamp, root_session_id = s.root_session_id, cwd = s.cwd
from {schema}.sessions as s
where u.spent_at is null and s.tenant_id = u.tenant_id and s.session_id = u.session_id;

alter table {schema}.usage_ledger
  alter column spent_at set not null,
  alter column root_session_id set not null,
  alter column provider drop default,
  alter column model drop default,
  alter column entry_type drop default,
  alter column role drop default,
  alter column dimensions drop default,
  alter column position drop default;

-- A position is the number of a transaction and this, which is raised after a restore into a server whose transactions
-- have lower numbers, so that positions go on rising.
create function {schema}.position_offset() returns bigint language sql stable parallel safe return 0::bigint;
-- Where the transaction that runs writes into the ledger, and below which position no more is going to be written.
create function {schema}.ledger_position() returns bigint language sql volatile
return {schema}.position_offset() + pg_current_xact_id()::text::bigint;
create function {schema}.ledger_horizon() returns bigint language sql stable
return {schema}.position_offset() + pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- By the time at which it was spent, and by the order in which it was written down.
create index usage_ledger_by_time on {schema}.usage_ledger (tenant_id, spent_at, session_id, seq);
create unique index usage_ledger_by_position on {schema}.usage_ledger (tenant_id, position, session_id, seq);

do $$
declare
  added record;
begin
  for added in
    select * from (values
      ('tenants', 'billing_dimensions'), ('sessions', 'root_session_id'),
      ('usage_ledger', 'provider'), ('usage_ledger', 'model'), ('usage_ledger', 'spent_at'),
      ('usage_ledger', 'entry_type'), ('usage_ledger', 'role'), ('usage_ledger', 'root_session_id'),
      ('usage_ledger', 'cwd'), ('usage_ledger', 'dimensions'), ('usage_ledger', 'position')
    ) as t (relation, name)
  loop
    execute format('alter table {schema}.%I alter column %I set statistics 0', added.relation, added.name);
  end loop;
end
$$;

-- The primary key of the ledger becomes its youngest index again (see 0007).
alter table {schema}.usage_ledger drop constraint usage_ledger_pkey, add primary key (tenant_id, session_id, usage_id);

alter table {schema}.tenants force row level security;
alter table {schema}.sessions force row level security;
alter table {schema}.entries force row level security;
alter table {schema}.usage_ledger force row level security;
