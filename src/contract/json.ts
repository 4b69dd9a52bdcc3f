/** Any value that JSON can represent. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

/** A JSON value that the receiver must not change. */
export type ReadonlyJsonValue =
  | null
  | boolean
  | number
  | string
  | readonly ReadonlyJsonValue[]
  | ReadonlyJsonObject;

/** A JSON object whose members the receiver must not change. */
export type ReadonlyJsonObject = { [key: string]: ReadonlyJsonValue };
