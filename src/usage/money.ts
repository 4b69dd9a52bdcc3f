import { exactDecimal } from "./exact-decimal.ts";

/**
 * US dollars for people, rounded: `$1,234.50`. What is not zero is not shown as zero, but as `<$0.01`.
 *
 * @param amount an exact decimal
 * @param digits after the point
 */
export function dollars(amount: string, digits: number): string {
  const { units, scale } = exactDecimal(amount);
  const size = units < 0n ? -units : units;
  if (units !== 0n && size * 2n * 10n ** BigInt(digits) < 10n ** BigInt(scale)) {
    return `${units < 0n ? ">-" : "<"}${formatted((10 ** -digits).toFixed(digits), digits)}`;
  }
  return formatted(amount, digits);
}

/** How many digits after the point tell amounts of this size apart. */
export function digitsFor(amounts: readonly (string | null)[]): number {
  const largest = amounts.reduce((size, amount) => Math.max(size, Math.abs(Number(amount ?? 0))), 0);
  if (largest === 0 || largest >= 1) return 2;
  return largest >= 0.01 ? 4 : 6;
}

function formatted(amount: string, digits: number): string {
  let format = FORMATS.get(digits);
  if (format === undefined) {
    const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    format = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", ...fraction });
    FORMATS.set(digits, format);
  }
  // As text it is not rounded to a double first.
  return format.format(amount as Intl.StringNumericLiteral);
}

const FORMATS = new Map<number, Intl.NumberFormat>();
