-- No statistics of columns. PostgreSQL takes them from the rows of all tenants, and row-level security does not keep
-- EXPLAIN from telling its estimates: by them, one tenant could guess what another one stores. The package's own
-- queries each follow an index whatever the estimates are.
--
-- Where a release before this one was analyzed, what PostgreSQL knows since then stays: see docs/tenants.md.

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
