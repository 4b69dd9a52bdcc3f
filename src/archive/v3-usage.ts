import type { Usage } from "../contract/usage.ts";
import type { UsageRow } from "../contract/write.ts";
import { importedUsage } from "./imported-usage.ts";
import { usageId } from "./ledger-selection.ts";
import type { V3Index } from "./v3-index.ts";
import { timestampOf, usageOf, type V3RetainedRecord, type V3Usage } from "./v3-record.ts";

/** The row of a record that spent something. The index must be that of the whole file. */
export function usageRow(
  record: V3RetainedRecord | V3Usage,
  { ids }: V3Index,
): Omit<UsageRow, "seq"> & { timestamp: number } {
  return {
    id: usageId(record, ids),
    usage: importedUsage(usageOf(record)) as Usage,
    ...(record.type === "usage" ? {} : { entryId: record.id }),
    adjustment: false,
    timestamp: timestampOf(record),
    details: { source: "v3-import", ...(record.type === "usage" ? spender(record) : {}) },
  };
}

/** Who spent what no message says. */
function spender({ kind, provider, model, note }: V3Usage) {
  return JSON.parse(JSON.stringify({ kind, provider, model, note }));
}
