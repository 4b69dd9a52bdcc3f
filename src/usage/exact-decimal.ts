/** A decimal without rounding: `units` divided by 10 to the power of `scale`. */
export interface ExactDecimal {
  readonly units: bigint;
  readonly scale: number;
}

/** Of a decimal as PostgreSQL writes it. */
export function exactDecimal(text: string): ExactDecimal {
  const [whole = "", fraction = ""] = text.split(".");
  const digits = fraction.replace(/0+$/, "");
  return { units: BigInt(whole + digits), scale: digits.length };
}

/** The same decimal in units of a larger scale. */
export function unitsAt(scale: number, decimal: ExactDecimal): bigint {
  return decimal.units * 10n ** BigInt(scale - decimal.scale);
}

/** How many digits it has before the point. */
export function wholeDigits({ units, scale }: ExactDecimal): number {
  const digits = String(units < 0n ? -units : units).length;
  return Math.max(digits - scale, 1);
}

const ZERO: ExactDecimal = { units: 0n, scale: 0 };

export function sumOf(texts: readonly string[]): string {
  const sum = texts.map(exactDecimal).reduce((left, right) => {
    const scale = Math.max(left.scale, right.scale);
    return { units: unitsAt(scale, left) + unitsAt(scale, right), scale };
  }, ZERO);
  return decimalText(sum);
}

export function decimalText({ units, scale }: ExactDecimal): string {
  const sign = units < 0n ? "-" : "";
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, "0");
  return `${sign}${digits.slice(0, digits.length - scale)}${scale === 0 ? "" : `.${digits.slice(-scale)}`}`;
}
