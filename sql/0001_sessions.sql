-- Sessions of AI agents: the conversation tree, its current state, the usage ledger.
--
-- Authoritative: tenants, sessions (except the columns marked below), entries, scalar_values,
-- list_values, usage_ledger, archives. Rebuildable from them: sessions.name, sessions.first_message,
-- sessions.message_count, sessions.total_* and entries.run.
--
-- Nothing is created outside of the schema, no extension is needed.
-- The tenant leads every key, so that no query crosses tenants by accident and the tables can be
-- distributed by tenant as they are. Identifiers sort by code point (collation "C").
-- Payloads are json, never jsonb: transcripts hold NUL characters and lone surrogates, which only
-- the verbatim text keeps. Points in time are milliseconds since the epoch.

create table {schema}.tenants (
  tenant_id  uuid primary key default gen_random_uuid(),
  slug       text collate "C" not null unique,
  created_at bigint not null default (extract(epoch from clock_timestamp()) * 1000)::bigint
);

insert into {schema}.tenants (slug) values ('default');

-- Indexes that share their leading columns with a primary key are created before it: on a table without
-- statistics all of them look equally good to the planner, which then takes the one created last.

-- Every commit updates its session's row. The free space keeps those updates on the row's own page
-- and out of the indexes (HOT), so index nothing here that a commit changes.
create table {schema}.sessions (
  tenant_id           uuid not null references {schema}.tenants,
  session_id          text collate "C" not null,
  storage_version     integer not null,
  created_at          bigint not null,
  modified_at         bigint not null,
  cwd                 text collate "C",
  parent_session_id   text collate "C",
  legacy_parent_path  text collate "C",
  next_seq            bigint not null,
  name                text,             -- value pi.session.name in a form that text can hold
  first_message       text,             -- start of the first user message
  message_count       bigint not null,
  -- Sums of the ledger as IEEE doubles in ledger order; null where no row has the field.
  total_input         double precision not null,
  total_output        double precision not null,
  total_cache_read    double precision not null,
  total_cache_write   double precision not null,
  total_cache_write_1h double precision,
  total_reasoning     double precision,
  total_tokens        double precision not null,
  total_cost_input    double precision not null,
  total_cost_output   double precision not null,
  total_cost_cache_read double precision not null,
  total_cost_cache_write double precision not null,
  total_cost          double precision not null
) with (fillfactor = 80);

create index sessions_by_creation on {schema}.sessions (tenant_id, created_at desc, session_id);
alter table {schema}.sessions add primary key (tenant_id, session_id);

-- The tree. This package never changes a row; rows go only with their session. A parent always precedes its
-- children (the commit checks it), so no foreign key ties an entry to its parent.
create table {schema}.entries (
  tenant_id   uuid not null,
  session_id  text collate "C" not null,
  entry_id    text collate "C" not null,
  parent_id   text collate "C",
  seq         bigint not null,
  -- A run is a maximal chain of entries, each the first child of the one before. Its number is the seq
  -- of its first entry. A path to the root is one range of each run that it passes.
  run         bigint not null,
  timestamp   bigint not null,
  type        text collate "C" not null,
  custom_type text collate "C",
  role        text collate "C",         -- of a message
  provider    text collate "C",         -- of an assistant message
  model       text collate "C",         -- of an assistant message
  preview     text,                     -- start of a user message
  payload     json not null,            -- all fields that have no column
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);

create unique index entries_by_seq on {schema}.entries (tenant_id, session_id, seq);
create unique index entries_by_run on {schema}.entries (tenant_id, session_id, run, seq);
alter table {schema}.entries add primary key (tenant_id, session_id, entry_id);

create table {schema}.scalar_values (
  tenant_id  uuid not null,
  session_id text collate "C" not null,
  namespace  text collate "C" not null,
  key        text collate "C" not null,
  seq        bigint not null,
  value      json not null,
  primary key (tenant_id, session_id, namespace, key),
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
) with (fillfactor = 80);

create table {schema}.list_values (
  tenant_id  uuid not null,
  session_id text collate "C" not null,
  namespace  text collate "C" not null,
  key        text collate "C" not null,
  seq        bigint not null,
  value      json not null,
  primary key (tenant_id, session_id, namespace, key, seq),
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);

-- Append-only. Tokens are whole numbers, money is exact US dollars. cache_write_1h is part of
-- cache_write and reasoning is part of output: add neither to a total.
create table {schema}.usage_ledger (
  tenant_id        uuid not null,
  session_id       text collate "C" not null,
  usage_id         text collate "C" not null,
  seq              bigint not null,
  timestamp        bigint not null,     -- of the commit; of an imported row, when it was spent
  entry_id         text collate "C",    -- the entry that caused it; finds provider and model by a join
  adjustment       boolean not null,
  input            bigint not null,
  output           bigint not null,
  cache_read       bigint not null,
  cache_write      bigint not null,
  cache_write_1h   bigint,
  reasoning        bigint,
  total_tokens     bigint not null,
  cost_input       numeric not null,
  cost_output      numeric not null,
  cost_cache_read  numeric not null,
  cost_cache_write numeric not null,
  cost_total       numeric not null,
  usage            json not null,       -- as it was handed in
  details          json,
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);

create unique index usage_ledger_by_seq on {schema}.usage_ledger (tenant_id, session_id, seq);
alter table {schema}.usage_ledger add primary key (tenant_id, session_id, usage_id);

-- Where an imported session came from; makes a second import of the same file do nothing.
create table {schema}.archives (
  tenant_id   uuid not null,
  session_id  text collate "C" not null,
  format      integer not null,         -- version of the archive format
  sha256      text collate "C" not null,
  bytes       bigint not null,
  imported_at bigint not null,
  primary key (tenant_id, session_id),
  foreign key (tenant_id, session_id) references {schema}.sessions on delete cascade
);
