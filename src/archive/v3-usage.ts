import type { Usage } from "../contract/usage.ts";
import { spendingEntryOf } from "../postgres/entry-columns.ts";
import type { ImportedWrite } from "../postgres/import-session.ts";
import { importedUsage } from "./imported-usage.ts";
import { usageId } from "./ledger-selection.ts";
import { entryOf } from "./v3-entry.ts";
import type { V3Index } from "./v3-index.ts";
import { timestampOf, usageOf, type V3RetainedRecord, type V3Usage } from "./v3-record.ts";

/** What a record spent: its row in the ledger but for what follows from the whole file. */
export interface Spending {
  readonly record: Pick<V3RetainedRecord | V3Usage, "id" | "type">;
  readonly row: Omit<UsageRow, "id" | "seq">;
}

type UsageRow = Extract<ImportedWrite, { kind: "usage" }>;

export function spendingOf(record: V3RetainedRecord | V3Usage): Spending {
  const { id, type } = record;
  const row = {
    kind: "usage" as const,
    usage: importedUsage(usageOf(record)) as Usage,
    adjustment: false,
    timestamp: timestampOf(record),
  };
  if (record.type === "usage") {
    return { record: { id, type }, row: { ...row, details: { source: SOURCE, ...spender(record) } } };
  }
  const spentBy = spendingEntryOf(entryOf(record, NO_PLACE));
  return { record: { id, type }, row: { ...row, entryId: id, spentBy, details: { source: SOURCE } } };
}

/** The row. The index must be that of the whole file. */
export function usageWrite(
  { record, row }: Spending,
  { index, seq }: { index: V3Index; seq: number },
): ImportedWrite {
  return { ...row, id: usageId(record, index.ids), seq };
}

const SOURCE = "v3-import";
/** What a record spent does not depend on others. */
const NO_PLACE = { parentId: null, seq: 0, retainedTail: [], fromId: null };

/** Who spent what no message says. */
function spender({ kind, provider, model, note }: V3Usage) {
  return JSON.parse(JSON.stringify({ kind, provider, model, note }));
}
