import { StoredDataError } from "./errors.ts";

/** Object ids of the built-in types that are not read as text. */
const OID = { bool: 16, int8: 20, int2: 21, int4: 23, float8: 701 } as const;

/**
 * How column values arrive in JavaScript, whatever type parsers the process has set in `pg`: 64-bit integers
 * as safe integers or an error, `json` and `numeric` as their text.
 */
export const WIRE_TYPES = {
  getTypeParser: (oid: number): ((text: string) => unknown) => {
    switch (oid) {
      case OID.bool:
        return (text) => text === "t";
      case OID.int8:
        return safeInteger;
      case OID.int2:
      case OID.int4:
      case OID.float8:
        return Number;
      default:
        return (text) => text;
    }
  },
};

function safeInteger(text: string): number {
  const integer = Number(text);
  if (!Number.isSafeInteger(integer)) throw new StoredDataError(`the integer ${text}`);
  return integer;
}
