import type { V3Record } from "./v3-record.ts";

/** Which records of a fork were copied from its parent, whose ledger they are in. */
export interface Inheritance {
  includes(record: V3Record): boolean;
}

export const NO_INHERITANCE: Inheritance = { includes: () => false };
