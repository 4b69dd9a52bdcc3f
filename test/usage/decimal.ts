const PLACES = 40;

/** An exact decimal, in units of 10^-40. */
export type Decimal = bigint;

/** The decimal that the shortest text of a number says. */
export function decimalOf(number: number | string): Decimal {
  const [, sign, whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(String(number)) ?? [];
  const digits = BigInt(whole + fraction);
  const shift = BigInt(PLACES - fraction.length + Number(exponent));
  if (shift < 0n) throw new RangeError(`${number} has too many places`);
  return (sign === "-" ? -digits : digits) * 10n ** shift;
}

/** Without zeros at its end. */
export function textOf(decimal: Decimal): string {
  const digits = String(decimal < 0n ? -decimal : decimal).padStart(PLACES + 1, "0");
  const text = `${digits.slice(0, -PLACES)}.${digits.slice(-PLACES)}`.replace(/\.?0+$/, "");
  return decimal < 0n ? `-${text}` : text;
}

/** Rounded to so many places, half away from zero. */
export function quotientOf(decimal: Decimal, divisor: number, places: number): Decimal {
  const unit = 10n ** BigInt(PLACES - places);
  const by = BigInt(divisor) * unit;
  const size = ((decimal < 0n ? -decimal : decimal) * 2n + by) / (2n * by);
  return (decimal < 0n ? -size : size) * unit;
}
