import type { BenchServer } from "../server/bench-server.ts";

/** The month that is asked for; it has a third of the rows. */
export const MONTH = { from: Date.UTC(2026, 10, 1), to: Date.UTC(2026, 11, 1) };

const FIRST = Date.UTC(2026, 9, 1);
const LAST = Date.UTC(2027, 0, 1);

export interface LedgerSize {
  readonly tenants: number;
  readonly rows: number;
}

/**
 * Fills the ledger as a quarter of a year would: the rows of all tenants come by turns, so they lie between each other.
 * Without checks and with the indexes made afterwards, since how long that takes is not the question.
 */
export async function fillLedger(server: BenchServer, { tenants, rows }: LedgerSize): Promise<void> {
  await server.query("set session_replication_role = replica; set search_path = pi_sessions");
  await server.query(
    `insert into tenants (tenant_id, slug) select tenant_id('t' || n), 't' || n from generate_series(1, ${tenants}) as n`,
  );
  await server.query(
    `insert into sessions (tenant_id, session_id, root_session_id, storage_version, created_at, modified_at, next_seq,
       message_count, total_input, total_output, total_cache_read, total_cache_write, total_tokens, total_cost_input,
       total_cost_output, total_cost_cache_read, total_cost_cache_write, total_cost)
     select tenant_id('t' || n), 's' || s, 's' || s, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
     from generate_series(1, ${tenants}) as n, generate_series(1, 20) as s`,
  );
  const indexes = await server.query<{ name: string; definition: string; is_primary: boolean }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition, indisprimary as is_primary
     from pg_index where indrelid = 'usage_ledger'::regclass order by indexrelid`,
  );
  for (const { name, is_primary } of indexes) {
    await server.query(
      is_primary ? `alter table usage_ledger drop constraint ${name}` : `drop index ${name}`,
    );
  }
  await server.query(insertRows(tenants, rows));
  for (const { definition, is_primary } of indexes) if (!is_primary) await server.query(definition);
  await server.query("alter table usage_ledger add primary key (tenant_id, session_id, usage_id)");
  await server.query("reset session_replication_role; reset search_path");
  await server.query("vacuum (analyze) pi_sessions.usage_ledger");
}

function insertRows(tenants: number, rows: number): string {
  const costs = {
    input: "(n % 1000) * 0.000003",
    output: "(n % 500) * 0.000015",
    read: "(n % 5000) * 0.0000003",
    write: "(n % 100) * 0.00000375",
  };
  return `
    insert into usage_ledger (tenant_id, session_id, usage_id, seq, timestamp, entry_id, adjustment, input, output,
      cache_read, cache_write, total_tokens, cost_input, cost_output, cost_cache_read, cost_cache_write, cost_total, usage,
      provider, model, spent_at, entry_type, role, root_session_id, dimensions, position)
    select of.ids[1 + n % ${tenants}], 's' || 1 + (n / ${tenants}) % 20, 'u' || n, n, at, 'e' || n, false, n % 1000, n % 500,
      n % 5000, n % 100, n % 1000 + n % 500 + n % 5000 + n % 100, ${costs.input}, ${costs.output}, ${costs.read},
      ${costs.write}, ${Object.values(costs).join(" + ")}, '{}', (array['anthropic', 'openai', 'google'])[1 + n % 3],
      (array['opus', 'gpt', 'gemini'])[1 + n % 3], at, 'message', 'assistant', 's1', '{}', ledger_position()
    from (
      select n, ${FIRST} + (n::bigint * ${LAST - FIRST} / ${rows})::bigint as at from generate_series(1, ${rows}) as n
    ) as g, (select array_agg(tenant_id) as ids from tenants where slug ~ '^t[0-9]+$') as of`;
}
