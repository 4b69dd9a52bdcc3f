import { sql } from "kysely";
import { columnNames, type Row, type SqlType } from "./batch-types.ts";
import type { Advance } from "./commit.ts";
import type { statsColumns } from "./session-row.ts";
import { slotsOf } from "./template.ts";
import type { Columns } from "./write-batch.ts";

/** The data of one {@link Advance} in the form that the statement's parameters take. */
export interface Input {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly advance: Advance;
  readonly stats: ReturnType<typeof statsColumns>;
  readonly ids: readonly string[];
  readonly replaced: Columns<"namespace" | "key">;
  readonly preview: string | null;
  readonly name: string | null | undefined;
}

export const slot = slotsOf<Input>();

/** Parallel arrays as a table: `unnest($1::text[], …) as alias(column, …)`. */
export function rowsOf<TAlias extends string, TTypes extends Record<string, SqlType>>(
  alias: TAlias,
  columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
  types: TTypes,
) {
  const aliased = sql`${sql.ref(alias)}(${sql.join(columnNames(types).map((name) => sql.ref(name)))})`;
  return sql<Row<TTypes>>`unnest(${arraysOf(columns, types)})`.as<TAlias>(aliased);
}

export function arraysOf<TTypes extends Record<string, SqlType>>(
  columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
  types: TTypes,
) {
  return sql.join(
    columnNames(types).map(
      (name) => sql`${slot((input) => columns(input)[name])}::${sql.raw(`${types[name]}[]`)}`,
    ),
  );
}
