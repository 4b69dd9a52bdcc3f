-- An application reads and writes one tenant at a time. It never changes an entry or a row of the ledger: those go
-- with their session, by cascade. It may add a tenant and name it; limits and suspension are
-- the owner's.
grant usage on schema {schema} to {role};
revoke all on all tables in schema {schema} from {role};
grant select on all tables in schema {schema} to {role};
grant insert on {schema}.sessions, {schema}.entries, {schema}.scalar_values, {schema}.list_values,
  {schema}.usage_ledger, {schema}.archives, {schema}.archive_journal, {schema}.session_terms to {role};
-- Sums of the ledger follow it, so who may write the ledger may write them.
grant insert, update on {schema}.usage_tenants, {schema}.usage_sums to {role};
grant delete on {schema}.usage_sums to {role};
grant insert (tenant_id, slug, name, settings) on {schema}.tenants to {role};
grant insert, update, delete on {schema}.budgets to {role};
grant update (name, billing_dimensions, hard_budgets, exhausted_until) on {schema}.tenants to {role}; -- also what locking the tenant's row takes
grant update on {schema}.sessions, {schema}.scalar_values, {schema}.tenant_storage to {role};
grant delete on {schema}.sessions, {schema}.scalar_values, {schema}.list_values, {schema}.session_terms to {role};
