-- What the planner must not know, and how statements stay good without it.

-- No statistics of columns. PostgreSQL takes them from the rows of all tenants, and row-level security does not keep
-- EXPLAIN from telling its estimates: by them, one tenant could guess what another one stores. What a release before
-- this one had collected stays; `analyze` adds nothing to it.
do $$
declare
  of_tenant record;
begin
  for of_tenant in
    select c.oid::regclass as relation, a.attname as name
    from pg_class as c join pg_attribute as a on a.attrelid = c.oid
    where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
      and exists (select from pg_attribute as t where t.attrelid = c.oid and t.attname = 'tenant_id')
  loop
    execute format('alter table %s alter column %I set statistics 0', of_tenant.relation, of_tenant.name);
  end loop;
end
$$;

-- The primary key of sessions becomes its youngest index: in a small table, all that begin with the tenant look
-- equally good to the planner, which then takes the youngest, and keeps it while the table grows.
do $$
declare
  reference record;
  renewed text[] := '{}';
begin
  for reference in
    select conrelid::regclass as relation, conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where confrelid = '{schema}.sessions'::regclass and contype = 'f'
  loop
    execute format('alter table %s drop constraint %I', reference.relation, reference.name);
    renewed := renewed || format('alter table %s add constraint %I %s', reference.relation, reference.name, reference.definition);
  end loop;
  alter table {schema}.sessions drop constraint sessions_pkey, add primary key (tenant_id, session_id);
  for i in 1 .. cardinality(renewed) loop
    execute renewed[i];
  end loop;
end
$$;

-- Values and lists are deleted one by one: of a join, the planner would walk through all that the session has.
create function {schema}.delete_values(of_tenant uuid, of_session text, namespaces text[], keys text[]) returns void
language plpgsql
as $$
begin
  for i in 1 .. cardinality(keys) loop
    delete from {schema}.scalar_values as v
    where v.tenant_id = of_tenant and v.session_id = of_session and v.namespace = namespaces[i] and v.key = keys[i];
  end loop;
end
$$;

-- The elements below a seq, so that those stay which the same commit appends.
create function {schema}.delete_lists(
  of_tenant uuid, of_session text, namespaces text[], keys text[], seqs bigint[]
) returns void
language plpgsql
as $$
begin
  for i in 1 .. cardinality(keys) loop
    delete from {schema}.list_values as l
    where l.tenant_id = of_tenant and l.session_id = of_session and l.namespace = namespaces[i] and l.key = keys[i]
      and l.seq < seqs[i];
  end loop;
end
$$;
