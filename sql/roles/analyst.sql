-- An analyst reads the ledger of all tenants and its sums, and nothing else of theirs.
grant usage on schema {schema} to {role};
revoke all on all tables in schema {schema} from {role};
grant select on {schema}.kysely_migration, {schema}.usage_ledger, {schema}.usage_sums, {schema}.usage_tenants,
  {schema}.usage_rows, {schema}.usage_hours, {schema}.usage_days, {schema}.usage_sessions to {role};
drop policy if exists all_for_analyst on {schema}.usage_ledger;
create policy all_for_analyst on {schema}.usage_ledger for select to {role} using (true);
drop policy if exists all_for_analyst on {schema}.usage_sums;
create policy all_for_analyst on {schema}.usage_sums for select to {role} using (true);
drop policy if exists all_for_analyst on {schema}.usage_tenants;
create policy all_for_analyst on {schema}.usage_tenants for select to {role} using (true);
