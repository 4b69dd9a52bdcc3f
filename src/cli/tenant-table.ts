import type { TenantRecord } from "../postgres/tenants.ts";
import {
  type Column,
  formatCount,
  formatTime,
  jsonText,
  oneLine,
  print,
  printTable,
  visible,
} from "./output.ts";

export function printTenants(tenants: readonly TenantRecord[]): void {
  printTable(COLUMNS, tenants);
}

/** One tenant, with what its application keeps. */
export function printTenant(tenant: TenantRecord): void {
  printTenants([tenant]);
  if (Object.keys(tenant.settings).length > 0) print(`\nSettings:\n${jsonText(tenant.settings)}`);
}

const COLUMNS: Column<TenantRecord>[] = [
  { head: "SLUG", cell: ({ slug }) => visible(slug), shrink: { min: 8, rank: 1 } },
  { head: "NAME", cell: ({ name }) => oneLine(name ?? "–", 40), shrink: { min: 6 } },
  { head: "CREATED (UTC)", cell: ({ createdAt }) => formatTime(createdAt) },
  {
    head: "STATE",
    cell: ({ isBeingDeleted, suspendedAt }) =>
      isBeingDeleted
        ? "being deleted"
        : suspendedAt === undefined
          ? "active"
          : `suspended ${formatTime(suspendedAt)} UTC`,
  },
  { head: "MAX SESSIONS", cell: ({ limits }) => limitCell(limits.sessions), align: "right" },
  { head: "MAX BYTES", cell: ({ limits }) => limitCell(limits.storedBytes), align: "right" },
  { head: "MAX BYTES PER ENTRY", cell: ({ limits }) => limitCell(limits.entryBytes), align: "right" },
];

function limitCell(maximum: number | undefined): string {
  return maximum === undefined ? "–" : formatCount(maximum);
}
