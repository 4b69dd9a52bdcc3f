import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import type { CommittedWrite } from "../contract/write.ts";
import { isExactly } from "./probe.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { read, type Tables } from "./transaction.ts";

/**
 * Looks for what a commit would have left in a session that others have committed to since. Entries and usage rows
 * have ids and stay. Values and list elements prove nothing: somebody else may have written the same.
 */
export async function findCommit(
  tables: Tables,
  key: SessionKey,
  writes: readonly CommittedWrite[],
): Promise<"committed" | "not committed" | "unknown"> {
  const trace = writes.find(({ kind }) => kind === "entry" || kind === "usage");
  if (trace?.kind !== "entry" && trace?.kind !== "usage") return "unknown";
  const { id, seq, kind } = trace;
  const rows = await read(tables, BACKGROUND_CONTEXT, (db) =>
    kind === "entry"
      ? db
          .selectFrom("entries")
          .select("seq")
          .where(isSession(key))
          .where(isExactly("entry_id", id))
          .orderBy("entry_id")
          .limit(1)
      : db
          .selectFrom("usage_ledger")
          .select("seq")
          .where(isSession(key))
          .where(isExactly("usage_id", id))
          .orderBy("usage_id")
          .limit(1),
  );
  return rows.some((row) => row.seq === seq) ? "committed" : "not committed";
}
