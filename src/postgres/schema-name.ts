import { InvalidSchemaNameError } from "./errors.ts";

export const DEFAULT_SCHEMA = "pi_sessions";

/** @throws InvalidSchemaNameError */
export function assertSchemaName(name: string): void {
  if (name.length > 63) throw new InvalidSchemaNameError(`is ${name.length} characters long`);
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new InvalidSchemaNameError("contains other characters");
  if (/^(pg_.*|public|information_schema)$/i.test(name))
    throw new InvalidSchemaNameError(`"${name}" is reserved`);
}
