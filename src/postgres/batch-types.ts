/** SQL types of the columns of a batch, in the order in which statements take them. */

export const ENTRY_TYPES = {
  entry_id: "text",
  parent_id: "text",
  seq: "bigint",
  chain: "bigint",
  joins: "text",
  timestamp: "bigint",
  type: "text",
  custom_type: "text",
  role: "text",
  provider: "text",
  model: "text",
  preview: "text",
  payload: "text",
} as const;

export const LEDGER_TYPES = {
  usage_id: "text",
  seq: "bigint",
  timestamp: "bigint",
  entry_id: "text",
  adjustment: "boolean",
  input: "bigint",
  output: "bigint",
  cache_read: "bigint",
  cache_write: "bigint",
  cache_write_1h: "bigint",
  reasoning: "bigint",
  total_tokens: "bigint",
  cost_input: "numeric",
  cost_output: "numeric",
  cost_cache_read: "numeric",
  cost_cache_write: "numeric",
  cost_total: "numeric",
  usage: "json",
  details: "json",
} as const;

export const USAGE_TYPES = {
  ...LEDGER_TYPES,
  provider: "text",
  model: "text",
  spent_at: "bigint",
  entry_type: "text",
  role: "text",
  earlier_entry: "text",
} as const;

export const ADDRESS_TYPES = { namespace: "text", key: "text" } as const;
export const DELETED_LIST_TYPES = { ...ADDRESS_TYPES, seq: "bigint" } as const;
export const VALUE_TYPES = { ...ADDRESS_TYPES, seq: "bigint", value: "json" } as const;

export type SqlType = "text" | "bigint" | "boolean" | "numeric" | "json";
export type Row<TTypes extends Record<string, SqlType>> = {
  [C in keyof TTypes]: TTypes[C] extends "bigint" ? number : TTypes[C] extends "boolean" ? boolean : string;
};

export function columnNames<TTypes extends Record<string, SqlType>>(types: TTypes) {
  return Object.keys(types) as Extract<keyof TTypes, string>[];
}
