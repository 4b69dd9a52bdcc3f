import { shortenedTo, widthOf } from "../contract/letters.ts";

/** How a column gives way where a table is wider than the terminal. */
export interface Shrinking {
  /** No narrower than this. */
  readonly min: number;
  /** Those of a lower rank give way first. Default 0. */
  readonly rank?: number;
  /** Which end of a cell is left out. Default `end`. */
  readonly cut?: "start" | "end";
}

/** Between two columns. */
export const GAP = 2;

/** The cells of a table, those of shrinking columns shortened until a row fits into `maxWidth`, if it can. */
export function fitted(
  rows: readonly (readonly string[])[],
  columns: readonly (Shrinking | undefined)[],
  maxWidth: number,
): string[][] {
  const widths = columns.map((_, column) =>
    rows.reduce((widest, row) => Math.max(widest, widthOf(row[column] ?? "")), 0),
  );
  let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - maxWidth;
  for (; excess > 0; excess--) {
    const next = nextToShrink(widths, columns);
    if (next === undefined) break;
    widths[next] = (widths[next] ?? 0) - 1;
  }
  return rows.map((row) =>
    row.map((cell, column) => shortenedTo(widths[column] ?? Infinity, cell, columns[column]?.cut)),
  );
}

/** Of the lowest rank that has room, the widest, so that such columns end about equally wide. */
function nextToShrink(
  widths: readonly number[],
  columns: readonly (Shrinking | undefined)[],
): number | undefined {
  const [next] = columns
    .flatMap((column, index) => {
      const width = widths[index] ?? 0;
      return column === undefined || width <= column.min ? [] : [{ index, width, rank: column.rank ?? 0 }];
    })
    .sort((left, right) => left.rank - right.rank || right.width - left.width);
  return next?.index;
}
