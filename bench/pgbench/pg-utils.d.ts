declare module "pg/lib/utils.js" {
  /** What the driver sends for a parameter. */
  export function prepareValue(value: unknown): string | Buffer | null;
}
