-- Listing a tenant's sessions page by page, and metadata that an application finds them by.
--
-- Authoritative: sessions.metadata. Rebuildable: session_terms, and the generated columns.

-- Generated columns rather than indexes on expressions: row-level security lets only comparisons into an index
-- condition. None of them changes with an ordinary commit, so commits stay out of the indexes (HOT); the minute, once
-- a minute. Shortened, so that every index row fits.
alter table {schema}.sessions
  add column metadata        jsonb not null default '{}',
  add column modified_minute bigint generated always as (modified_at / 60000) stored,
  -- Sessions without a name come after all others.
  add column name_key        text collate "C" generated always as (coalesce(left(name, 200), E'\U0010FFFF')) stored,
  add column cwd_key         text collate "C" generated always as (left(cwd, 200)) stored;

-- A page is a range of one of these. Sessions that tie are sorted by id.
drop index {schema}.sessions_by_creation;
create index sessions_by_creation on {schema}.sessions (tenant_id, created_at, session_id);
create index sessions_by_modification on {schema}.sessions (tenant_id, modified_minute);
create index sessions_by_name on {schema}.sessions (tenant_id, name_key, session_id);
create index sessions_by_cwd on {schema}.sessions (tenant_id, cwd_key, created_at, session_id) where cwd_key is not null;
create index sessions_by_parent on {schema}.sessions (tenant_id, parent_session_id, created_at, session_id)
  where parent_session_id is not null;

-- One row for each value in a session's metadata, with its path, as a hash: what contains a value is found by it and
-- then compared.
create table {schema}.session_terms (
  tenant_id  uuid not null,
  term       bigint not null,
  created_at bigint not null,           -- of the session
  session_id text collate "C" not null,
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);

create index session_terms_by_term on {schema}.session_terms (tenant_id, term, created_at, session_id);
alter table {schema}.session_terms add primary key (tenant_id, session_id, term);

alter table {schema}.session_terms enable row level security, force row level security;
create policy of_one_tenant on {schema}.session_terms
  using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);
