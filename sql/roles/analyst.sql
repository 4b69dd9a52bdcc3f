-- An analyst reads the ledger of all tenants, and nothing else.
grant usage on schema {schema} to {role};
revoke all on all tables in schema {schema} from {role};
grant select on {schema}.usage_ledger to {role};
drop policy if exists all_for_analyst on {schema}.usage_ledger;
create policy all_for_analyst on {schema}.usage_ledger for select to {role} using (true);
