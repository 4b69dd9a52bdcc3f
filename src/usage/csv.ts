import { stringify } from "csv-stringify/sync";
import type { UsageGroup, UsageReport, UsageSums } from "../postgres/usage-report.ts";
import { SUM_COLUMNS } from "./columns.ts";

/**
 * A report as CSV (RFC 4180: lines end in CRLF, and a cell with a comma, a quote or a line break is quoted). Its heads
 * are the report's keys, `is_remainder`, and the sums as the ledger names them; with `compare`, the sums of the period
 * before follow as `previous_…`. It has the report's rows without the total, or, in a report without keys, the total
 * alone. Numbers have no thousands separators, costs are exact decimals, and what is null is empty.
 *
 * A spreadsheet would run a text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return as a formula; such a
 * text gets an apostrophe before it. Numbers stay numbers.
 *
 * @example
 * await writeFile("november.csv", usageCsv(await db.usage.report({ by: ["day", "model"] }, context)));
 */
export function usageCsv(report: UsageReport): string {
  const { by, rows, total } = report;
  const isCompared = total.previous !== undefined;
  const names = SUM_COLUMNS.map(({ name }) => name);
  const header = [
    ...(by.length === 0 ? [] : [...by, "is_remainder"]),
    ...names,
    ...(isCompared ? names.map((name) => `previous_${name}`) : []),
  ];
  const cells = (sums: UsageSums & { previous?: UsageSums }) => [
    ...SUM_COLUMNS.map(({ of }) => of(sums)),
    ...(sums.previous === undefined ? [] : SUM_COLUMNS.map(({ of }) => of(sums.previous as UsageSums))),
  ];
  const keys = ({ group, isRemainder }: UsageGroup) => [...by.map((key) => group[key]), String(isRemainder)];
  const records = by.length === 0 ? [cells(total)] : rows.map((row) => [...keys(row), ...cells(row)]);
  return stringify([header, ...records], {
    record_delimiter: "windows",
    // Otherwise only the two together are quoted.
    quoted_match: /[\r\n]/,
    cast: {
      // Decimals are strings too, and behind the keys.
      string: (value, { index }) => (index < by.length ? { value, escape_formulas: true } : value),
    },
  });
}
