import type { Usage } from "../contract/usage.ts";
import { spendingEntryOf } from "../postgres/entry-columns.ts";
import type { ImportedWrite } from "../postgres/import-session.ts";
import { importedUsage } from "./imported-usage.ts";
import { usageId } from "./ledger-selection.ts";
import { entryOf } from "./v3-entry.ts";
import type { V3Index } from "./v3-index.ts";
import { timestampOf, usageOf, type V3RetainedRecord, type V3Usage } from "./v3-record.ts";

/** The row of a record that spent something. The index must be that of the whole file. */
export function usageWrite(
  record: V3RetainedRecord | V3Usage,
  { index, seq }: { index: V3Index; seq: number },
): ImportedWrite {
  const row = {
    kind: "usage" as const,
    seq,
    id: usageId(record, index.ids),
    usage: importedUsage(usageOf(record)) as Usage,
    adjustment: false,
    timestamp: timestampOf(record),
  };
  if (record.type === "usage") return { ...row, details: { source: SOURCE, ...spender(record) } };
  const entry = entryOf(record, NO_PLACE);
  return { ...row, entryId: record.id, spentBy: spendingEntryOf(entry), details: { source: SOURCE } };
}

const SOURCE = "v3-import";
/** What a record spent does not depend on others. */
const NO_PLACE = { parentId: null, seq: 0, retainedTail: [], fromId: null };

/** Who spent what no message says. */
function spender({ kind, provider, model, note }: V3Usage) {
  return JSON.parse(JSON.stringify({ kind, provider, model, note }));
}
