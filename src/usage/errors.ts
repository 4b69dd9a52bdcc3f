import { PiSessionError } from "../contract/errors.ts";

/** An amount of money has more digits than a Parquet decimal, which has 38. Nothing was written. */
export class ParquetPrecisionError extends PiSessionError {
  readonly code = "parquet_precision";
  /** Column of the file. */
  readonly column: string;
  /** The amount, an exact decimal. */
  readonly amount: string;

  constructor(column: string, amount: string) {
    super(
      `The amount ${amount} in the column ${column} does not fit beside the others into a Parquet decimal of 38 digits: narrow the report, or take JSON or CSV.`,
    );
    this.column = column;
    this.amount = amount;
  }
}
