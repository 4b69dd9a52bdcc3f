import { type Kysely, sql } from "kysely";
import {
  assertAddress,
  type ListElement,
  type ListReadOptions,
  resolveListRead,
  type StoredValue,
  type Value,
  type ValueList,
  value,
} from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import { seqBound } from "./entries.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { sessionSlots, slotsOf, Templates } from "./template.ts";
import { read, type Tables } from "./transaction.ts";

const VALUE = sql<string>`value::text`.as("value");

/** @throws InvalidTextError */
export async function getValue<T>(
  tables: Tables,
  key: SessionKey,
  address: Value<T>,
  context: Context,
): Promise<StoredValue<T> | undefined> {
  assertAddress(address.namespace, address.key);
  const [row] = await read(tables, context, (db) =>
    CURRENT.fill(db, "", () => currentValue(db), {
      session: key,
      namespace: address.namespace,
      key: address.key,
    }),
  );
  return row === undefined ? undefined : storedValue(address.namespace, row);
}

interface ValueInSession {
  readonly session: SessionKey;
  readonly namespace: string;
  readonly key: string;
}

const CURRENT = new Templates<ValueInSession, ValueRow>();
const slot = slotsOf<ValueInSession>();

function currentValue(db: Kysely<DB>) {
  const [namespace, key] = [slot((input) => input.namespace), slot((input) => input.key)];
  return db
    .selectFrom("scalar_values")
    .select(["key", "seq", VALUE])
    .where(isSession(sessionSlots(slot, ({ session }) => session)))
    .where("namespace", "=", namespace)
    .where("key", "=", key);
}

/** @throws InvalidTextError */
export async function scanValues<T>(
  tables: Tables,
  key: SessionKey,
  prefix: Value<T>,
  context: Context,
): Promise<StoredValue<T>[]> {
  assertAddress(prefix.namespace, prefix.key);
  const end = endOfPrefix(prefix.key);
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom("scalar_values")
      .select(["key", "seq", VALUE])
      .where(isSession(key))
      .where("namespace", "=", prefix.namespace)
      .where("key", ">=", prefix.key)
      .$if(end !== undefined, (scan) => scan.where("key", "<", end as string))
      .orderBy("key"),
  );
  return rows.map((row) => storedValue(prefix.namespace, row));
}

/** @throws InvalidTextError, InvalidOptionError */
export async function readList<T>(
  tables: Tables,
  key: SessionKey,
  address: ValueList<T>,
  options: ListReadOptions | undefined,
  context: Context,
): Promise<ListElement<T>[]> {
  assertAddress(address.namespace, address.key);
  const { cursor, order, limit } = resolveListRead(options);
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom("list_values")
      .select(["seq", VALUE])
      .where(isSession(key))
      .where("namespace", "=", address.namespace)
      .where("key", "=", address.key)
      .$if(cursor !== undefined, (scan) =>
        scan.where("seq", order === "asc" ? ">" : "<", seqBound("cursor", cursor?.seq)),
      )
      .orderBy("seq", order)
      .limit(limit),
  );
  return rows.map((row) => ({ seq: row.seq, value: JSON.parse(row.value) as T }));
}

interface ValueRow {
  key: string;
  seq: number;
  value: string;
}

function storedValue<T>(namespace: string, row: ValueRow): StoredValue<T> {
  return { address: value<T>(namespace, row.key), value: JSON.parse(row.value) as T, seq: row.seq };
}

const LAST_CODE_POINT = 0x10ffff;
const BEFORE_SURROGATES = 0xd7ff;
const AFTER_SURROGATES = 0xe000;

/** The first text, by code point, that is greater than every text with the prefix; `undefined` if there is none. */
export function endOfPrefix(prefix: string): string | undefined {
  const codePoints = Array.from(prefix, (character) => character.codePointAt(0) as number);
  while (codePoints.at(-1) === LAST_CODE_POINT) codePoints.pop();
  const last = codePoints.pop();
  if (last === undefined) return undefined;
  return String.fromCodePoint(...codePoints, last === BEFORE_SURROGATES ? AFTER_SURROGATES : last + 1);
}
