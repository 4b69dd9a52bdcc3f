-- Tenants that cannot touch each other: row-level security, limits, suspension.
--
-- Authoritative: tenants, sessions.metadata. Rebuildable: tenant_storage, sessions.stored_bytes,
-- sessions.reserved_bytes, entries.payload_bytes.
--
-- With many sessions in the database this rewrites `entries` once (payload_bytes) and locks it meanwhile.

-- A tenant's id follows from its slug: the first 16 bytes of a SHA-256, marked as a UUID of version 8. So nothing
-- has to be looked up before row-level security can be told the tenant, and that slugs are unique needs no index
-- across tenants, which would tell one tenant of another.
create function {schema}.tenant_id(slug text) returns uuid
language sql immutable strict parallel safe
begin atomic -- so that its functions are found once, not along the search path of whoever inserts
  select encode(
    set_byte(
      set_byte(hash, 6, (get_byte(hash, 6) & 15) | 128),
      8, (get_byte(hash, 8) & 63) | 128
    ), 'hex')::uuid
  from (select substr(sha256(convert_to('pi-session-postgres tenant ' || slug, 'UTF8')), 1, 16) as hash) as digest;
end;

-- Tenants of before get such an id. Their keys change in every table, so the references are renewed.
alter table {schema}.sessions drop constraint sessions_tenant_id_fkey;
alter table {schema}.entries drop constraint entries_tenant_id_session_id_fkey;
alter table {schema}.scalar_values drop constraint scalar_values_tenant_id_session_id_fkey;
alter table {schema}.list_values drop constraint list_values_tenant_id_session_id_fkey;
alter table {schema}.usage_ledger drop constraint usage_ledger_tenant_id_session_id_fkey;
alter table {schema}.archives drop constraint archives_tenant_id_session_id_fkey;

update {schema}.sessions as r set tenant_id = {schema}.tenant_id(slug) from {schema}.tenants as t where t.tenant_id = r.tenant_id;
update {schema}.scalar_values as r set tenant_id = {schema}.tenant_id(slug) from {schema}.tenants as t where t.tenant_id = r.tenant_id;
update {schema}.list_values as r set tenant_id = {schema}.tenant_id(slug) from {schema}.tenants as t where t.tenant_id = r.tenant_id;
update {schema}.usage_ledger as r set tenant_id = {schema}.tenant_id(slug) from {schema}.tenants as t where t.tenant_id = r.tenant_id;
update {schema}.archives as r set tenant_id = {schema}.tenant_id(slug) from {schema}.tenants as t where t.tenant_id = r.tenant_id;

-- Bytes of the payload's JSON, so that what a fork stores can be counted without reading payloads.
alter table {schema}.entries add column payload_bytes integer;
update {schema}.entries as r
set tenant_id = {schema}.tenant_id(slug), payload_bytes = octet_length(payload::text)
from {schema}.tenants as t where t.tenant_id = r.tenant_id;
alter table {schema}.entries alter column payload_bytes set not null;

update {schema}.tenants set tenant_id = {schema}.tenant_id(slug);
alter table {schema}.tenants
  drop constraint tenants_slug_key,
  alter column tenant_id drop default,
  add constraint tenants_id_of_slug check (tenant_id = {schema}.tenant_id(slug)),
  add column name         text,
  add column settings     json not null default '{}', -- the application's own
  add column suspended_at bigint,                     -- while it is set, the tenant can only be read
  add column deleting     boolean not null default false,
  -- Limits; null where there is none.
  add column max_sessions     bigint,
  add column max_stored_bytes bigint,
  add column max_entry_bytes  bigint;

alter table {schema}.sessions add foreign key (tenant_id) references {schema}.tenants;
alter table {schema}.entries add foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade;
alter table {schema}.scalar_values add foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade;
alter table {schema}.list_values add foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade;
alter table {schema}.usage_ledger add foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade;
alter table {schema}.archives add foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade;

-- What a session stores: bytes of the JSON of its payloads, usage rows and current values. In a tenant with a limit
-- a session reserves bytes ahead, so that its commits touch no row that all sessions of the tenant share.
alter table {schema}.sessions
  add column stored_bytes   bigint not null default 0,
  add column reserved_bytes bigint not null default 0,
  add column last_commit    uuid; -- its id; tells a writer whose connection broke what became of it

update {schema}.sessions as s set stored_bytes = (
  (select coalesce(sum(e.payload_bytes), 0) from {schema}.entries as e
   where e.tenant_id = s.tenant_id and e.session_id = s.session_id)
  + (select coalesce(sum(octet_length(u.usage::text) + coalesce(octet_length(u.details::text), 0)), 0)
     from {schema}.usage_ledger as u where u.tenant_id = s.tenant_id and u.session_id = s.session_id)
  + (select coalesce(sum(octet_length(v.value::text)), 0) from {schema}.scalar_values as v
     where v.tenant_id = s.tenant_id and v.session_id = s.session_id)
  + (select coalesce(sum(octet_length(v.value::text)), 0) from {schema}.list_values as v
     where v.tenant_id = s.tenant_id and v.session_id = s.session_id)
);

-- One row for each tenant that has a limit of sessions or bytes; the others pay for no counting.
create table {schema}.tenant_storage (
  tenant_id uuid primary key references {schema}.tenants on delete cascade,
  sessions  bigint not null,
  bytes     bigint not null      -- sum of greatest(stored_bytes, reserved_bytes) of the tenant's sessions
);

-- Raises PS001 if the tenant is suspended, PS003 if it does not exist, PS004 if it is being deleted.
create function {schema}.assert_writable(of_tenant uuid) returns void
language plpgsql stable
as $$
declare
  suspended bigint;
  going boolean;
begin
  select t.suspended_at, t.deleting into suspended, going from {schema}.tenants as t where t.tenant_id = of_tenant;
  if not found then raise exception 'the tenant does not exist' using errcode = 'PS003'; end if;
  if going then raise exception 'the tenant is being deleted' using errcode = 'PS004'; end if;
  if suspended is not null then raise exception 'the tenant is suspended' using errcode = 'PS001'; end if;
end
$$;

-- Before a session is added. Raises PS002 if the tenant may not have one more.
create function {schema}.admit_session(of_tenant uuid) returns void
language plpgsql
as $$
declare
  maximum bigint;
  counted bigint;
begin
  -- Held to the end of the transaction, so that counting does not start (`setLimits`) between this and the insertion.
  perform from {schema}.tenants as t where t.tenant_id = of_tenant for key share;
  perform {schema}.assert_writable(of_tenant);
  update {schema}.tenant_storage as c set sessions = c.sessions + 1
  where c.tenant_id = of_tenant returning c.sessions into counted;
  if not found then return; end if;
  select t.max_sessions into maximum from {schema}.tenants as t where t.tenant_id = of_tenant;
  if counted > maximum then
    raise exception 'the tenant has as many sessions as it may have'
      using errcode = 'PS002', detail = 'sessions ' || maximum;
  end if;
end
$$;

-- After a session was filled by an import or a fork. Raises PS002 if the tenant may not store as much.
create function {schema}.charge_session(of_tenant uuid, of_session text) returns void
language plpgsql
as $$
declare
  maximum bigint;
  charged bigint;
begin
  update {schema}.tenant_storage as c set bytes = c.bytes + s.stored_bytes
  from {schema}.sessions as s
  where c.tenant_id = of_tenant and s.tenant_id = of_tenant and s.session_id = of_session
  returning c.bytes into charged;
  if not found then return; end if;
  select t.max_stored_bytes into maximum from {schema}.tenants as t where t.tenant_id = of_tenant;
  if charged > maximum then
    raise exception 'the tenant stores as much as it may store'
      using errcode = 'PS002', detail = 'storedBytes ' || maximum;
  end if;
end
$$;

-- Lets a session store `needed` more bytes, and reserves some ahead. Where the rest of the limit is reserved by
-- other sessions, takes back what they do not use. Raises PS002 if that is not enough.
create function {schema}.reserve_bytes(of_tenant uuid, of_session text, needed bigint) returns void
language plpgsql
as $$
declare
  ahead bigint;
  maximum bigint;
  in_use bigint;
  before bigint;
  wanted bigint;
begin
  -- All that change reservations take this lock first.
  select c.bytes into in_use from {schema}.tenant_storage as c where c.tenant_id = of_tenant for update;
  if not found then return; end if;
  select t.max_stored_bytes into maximum from {schema}.tenants as t where t.tenant_id = of_tenant;
  select greatest(s.stored_bytes, s.reserved_bytes), s.stored_bytes + needed into before, wanted
  from {schema}.sessions as s where s.tenant_id = of_tenant and s.session_id = of_session for update;
  if not found or maximum is null or wanted <= before then return; end if;

  if in_use - before + wanted > maximum then
    update {schema}.sessions as s set reserved_bytes = 0
    where s.tenant_id = of_tenant and s.session_id <> of_session and s.reserved_bytes > s.stored_bytes;
    select coalesce(sum(greatest(s.stored_bytes, s.reserved_bytes)), 0) into in_use
    from {schema}.sessions as s where s.tenant_id = of_tenant;
  end if;
  if in_use - before + wanted > maximum then
    raise exception 'the tenant stores as much as it may store'
      using errcode = 'PS002', detail = 'storedBytes ' || maximum;
  end if;
  -- Less and less towards the limit, so that sessions need not take it from each other.
  ahead := least(1048576, (maximum - (in_use - before + wanted)) / 16);
  wanted := wanted + ahead;
  update {schema}.sessions as s set reserved_bytes = wanted
  where s.tenant_id = of_tenant and s.session_id = of_session;
  update {schema}.tenant_storage as c set bytes = in_use - before + wanted where c.tenant_id = of_tenant;
end
$$;

-- Row-level security. The tenant is named by `set local pi_sessions.tenant`; an unset setting reads as an empty
-- string after its first use, and shows nothing. No sub-select: the planner then folds the policy into a one-time
-- filter wherever the query names the tenant as well. Forced, so that the owner is bound too.
do $$
declare
  of_tenant text;
begin
  foreach of_tenant in array array['tenants', 'tenant_storage', 'sessions', 'entries', 'scalar_values', 'list_values',
    'usage_ledger', 'archives']
  loop
    execute format('alter table {schema}.%I enable row level security, force row level security', of_tenant);
    execute format(
      'create policy of_one_tenant on {schema}.%I '
      'using (tenant_id = nullif(current_setting(''pi_sessions.tenant'', true), '''')::uuid)', of_tenant);
  end loop;
end
$$;
