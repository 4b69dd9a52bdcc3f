import type { SchemaElement } from "hyparquet";
import type { ColumnSource } from "hyparquet-writer";
import type { UsageGroup, UsageReport, UsageSums } from "../postgres/usage-report.ts";
import type { UsageKey } from "../postgres/usage-report-options.ts";
import { SUM_COLUMNS, type SumColumn } from "./columns.ts";
import { ParquetPrecisionError } from "./errors.ts";
import { exactDecimal, unitsAt, wholeDigits } from "./exact-decimal.ts";

/** What the decimals of every database and data frame hold. */
const PRECISION = 38;
const PRECISION_BYTES = 16;
/** The shortest decimal of a cost that was computed in doubles rarely has more digits after the point. */
const SCALE = 24;

/** A column of a file: how it is declared, and its values. */
type Column = { readonly schema: SchemaElement; readonly source: ColumnSource };
/** A row as the file has it. A report without keys has one, its total. */
type Row = Pick<UsageReport, "total">["total"] & Partial<Pick<UsageGroup, "group" | "isRemainder">>;

/**
 * A report as an Apache Parquet file: its rows, without the total. Keys are strings, but hours timestamps in UTC, and
 * days, weeks and months the date of their first day. Counts are INT64, costs DECIMAL(38, 24) of US dollars, or of a
 * larger scale if one of them needs it; nothing is rounded. `is_remainder` is true in the rows of what `top` left over.
 * With `compare`, the sums of the period before follow, as `previous_…`. A report without keys has its total as its
 * only row.
 *
 * @throws ParquetPrecisionError
 * @example
 * await writeFile("usage.parquet", await usageParquet(await db.usage.report({ by: ["day", "model"] }, context)));
 */
export async function usageParquet(report: UsageReport): Promise<Uint8Array> {
  // Takes longer to load than all of this package, and few need it.
  const { ByteWriter, parquetWrite } = await import("hyparquet-writer");
  const rows: Row[] = report.by.length === 0 ? [report.total] : report.rows;
  const columns = [
    ...report.by.map((key) => keyColumn(key, rows)),
    ...(report.by.length === 0 ? [] : [remainderColumn(rows)]),
    ...sumColumns(report, rows),
  ];
  const writer = new ByteWriter();
  parquetWrite({
    writer,
    columnData: columns.map(({ source }) => source),
    schema: [{ name: "usage", num_children: columns.length }, ...columns.map(({ schema }) => schema)],
    createdBy: "pi-session-postgres",
    kvMetadata: [{ key: "pi_sessions.report", value: JSON.stringify(descriptionOf(report)) }],
  });
  return writer.getBytes();
}

/** What the rows alone do not tell. */
function descriptionOf({ from, to, previous, timeZone, by, isCumulative }: UsageReport): object {
  return { from, to, ...(previous && { previous }), timeZone, by, isCumulative };
}

function keyColumn(key: UsageKey, rows: readonly Row[]): Column {
  const values = rows.map(({ group }) => group?.[key] ?? null);
  switch (key) {
    case "hour":
      return column(
        { name: key, type: "INT64", converted_type: "TIMESTAMP_MILLIS", logical_type: UTC_MILLISECONDS },
        values.map((label) => (label === null ? null : new Date(label))),
      );
    case "day":
    case "week":
      return dateColumn(key, values);
    case "month":
      return dateColumn(
        key,
        values.map((label) => (label === null ? null : `${label}-01`)),
      );
    default:
      return column(
        { name: key, type: "BYTE_ARRAY", converted_type: "UTF8", logical_type: { type: "STRING" } },
        values,
      );
  }
}

const UTC_MILLISECONDS = { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MILLIS" } as const;

function dateColumn(name: string, days: readonly (string | null)[]): Column {
  return column(
    { name, type: "INT32", converted_type: "DATE", logical_type: { type: "DATE" } },
    days.map((day) => (day === null ? null : new Date(day))),
  );
}

function remainderColumn(rows: readonly Row[]): Column {
  return column(
    { name: "is_remainder", type: "BOOLEAN", repetition_type: "REQUIRED" },
    rows.map(({ isRemainder }) => isRemainder === true),
  );
}

function sumColumns(report: UsageReport, rows: readonly Row[]): Column[] {
  const current = SUM_COLUMNS.map((sum) => sumColumn(sum.name, sum, rows));
  if (report.previous === undefined) return current;
  const before = rows.map(({ previous }) => previous);
  return [...current, ...SUM_COLUMNS.map((sum) => sumColumn(`previous_${sum.name}`, sum, before))];
}

function sumColumn(name: string, sum: SumColumn, rows: readonly (UsageSums | undefined)[]): Column {
  const valuesOf = <T>(of: (sums: UsageSums) => T) => rows.map((row) => (row === undefined ? null : of(row)));
  switch (sum.kind) {
    case "count":
      return column(
        { name, type: "INT64", converted_type: "INT_64" },
        valuesOf((row) => BigInt(sum.of(row))),
      );
    case "share":
      return column({ name, type: "DOUBLE" }, valuesOf(sum.of));
    case "money":
      return moneyColumn(name, valuesOf(sum.of));
  }
}

/** @throws ParquetPrecisionError */
function moneyColumn(name: string, amounts: readonly (string | null)[]): Column {
  const decimals = amounts.map((amount) => (amount === null ? null : exactDecimal(amount)));
  const scale = decimals.reduce((largest, decimal) => Math.max(largest, decimal?.scale ?? 0), SCALE);
  const units = decimals.map((decimal, row) => {
    if (decimal !== null && wholeDigits(decimal) + scale > PRECISION)
      throw new ParquetPrecisionError(name, amounts[row] ?? "");
    return decimal === null ? null : unitsAt(scale, decimal);
  });
  return column(
    {
      ...{ name, type: "FIXED_LEN_BYTE_ARRAY", type_length: PRECISION_BYTES },
      ...{ converted_type: "DECIMAL", precision: PRECISION, scale },
      logical_type: { type: "DECIMAL", precision: PRECISION, scale },
    },
    units,
  );
}

function column(schema: SchemaElement, data: unknown[]): Column {
  return { schema: { repetition_type: "OPTIONAL", ...schema }, source: { name: schema.name, data } };
}
