-- Analysts and reports over all tenants know a tenant by its slug from its creation on, not from its first roll-up. A
-- tenant that was added by hand gets its row in the first roll-up, as before.
--
-- Authoritative: nothing.

alter table {schema}.tenants no force row level security;
alter table {schema}.usage_tenants no force row level security;

insert into {schema}.usage_tenants (tenant_id, slug, position)
select t.tenant_id, t.slug, 0 from {schema}.tenants as t where not t.deleting
on conflict do nothing;

alter table {schema}.tenants force row level security;
alter table {schema}.usage_tenants force row level security;
