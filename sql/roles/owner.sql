-- The role that migrates administers the tenants: it sees all of `tenants`, and what an analyst sees, and one tenant at
-- a time of the rest.
drop policy if exists all_for_owner on {schema}.tenants;
create policy all_for_owner on {schema}.tenants to current_user using (true);
drop policy if exists all_for_owner on {schema}.tenant_storage;
create policy all_for_owner on {schema}.tenant_storage to current_user using (true);
drop policy if exists all_for_owner on {schema}.usage_ledger;
create policy all_for_owner on {schema}.usage_ledger for select to current_user using (true);
drop policy if exists all_for_owner on {schema}.usage_sums;
create policy all_for_owner on {schema}.usage_sums for select to current_user using (true);
drop policy if exists all_for_owner on {schema}.usage_tenants;
create policy all_for_owner on {schema}.usage_tenants for select to current_user using (true);
