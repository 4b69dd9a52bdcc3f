import { type Expression, sql } from "kysely";

/**
 * Statements look rows up by the one index that is made for it. The planner has no statistics (sql/0007_planner.sql):
 * in a small table, all indexes that begin with tenant and session look equally good to it, and it keeps its plan
 * while the table grows. It cannot sort (`transaction.ts`), so an order leaves it no choice.
 *
 * Equal, spelled as a range: of what is equal the planner knows that an order by it is none. Order by the same column.
 */
export function isExactly(column: string, value: string | number | null | Expression<unknown>) {
  return sql<boolean>`${sql.ref(column)} between ${value} and ${value}`;
}

/** As an offset or a limit, keeps a probe for each row from becoming one pass over the whole session. */
export const ONE_PROBE = sql<number>`0`;
