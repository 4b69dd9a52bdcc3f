-- What an archive holds beyond the session that was imported from it, so that its bytes can be given back.
--
-- Authoritative: archives and archive_journal.

alter table {schema}.archives
  add column first_free_seq bigint,     -- next_seq of the session after the import; null for imports before this release
  add column path           text;       -- of the file, in a form that text can hold

-- The contents of the blocks, joined by their numbers, are a program that writes the file: bytes of its own, and
-- references to the payloads of the entries, in the order of their seq.
create table {schema}.archive_journal (
  tenant_id  uuid not null,
  session_id text collate "C" not null,
  block      integer not null,          -- from 0, without gaps
  content    bytea not null,
  primary key (tenant_id, session_id, block),
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);

alter table {schema}.archive_journal enable row level security, force row level security;
create policy of_one_tenant on {schema}.archive_journal
  using (tenant_id = nullif(current_setting('pi_sessions.tenant', true), '')::uuid);

do $$
declare
  of_journal record;
begin
  for of_journal in
    select a.attrelid::regclass as relation, a.attname as name from pg_attribute as a
    where a.attrelid in ('{schema}.archives'::regclass, '{schema}.archive_journal'::regclass)
      and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 0', of_journal.relation, of_journal.name);
  end loop;
end
$$;
