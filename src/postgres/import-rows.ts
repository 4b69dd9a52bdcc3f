import { type Compilable, type Kysely, sql } from "kysely";
import {
  ADDRESS_TYPES,
  DELETED_LIST_TYPES,
  LEDGER_TYPES,
  type SqlType,
  USAGE_TYPES,
  VALUE_TYPES,
} from "./batch-types.ts";
import { binaryArray, type ElementType, type ElementValue } from "./binary-array.ts";
import type { JournalBlock } from "./journal-blocks.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import type { Tables } from "./transaction.ts";
import { ATTRIBUTION_COLUMNS, attributionColumns, dimensionsOf } from "./usage-attribution.ts";
import type { Columns, WriteBatch } from "./write-batch.ts";

/** Rows of a session that nobody sees yet, so that none has to be compared with what is stored. */
export interface ImportRows {
  readonly batch: WriteBatch;
  /** One for each entry of the batch. */
  readonly runs: readonly number[];
  readonly journal: readonly JournalBlock[];
}

/**
 * Statements that store rows, in the order in which they have to run; none for a table that gets nothing. Ids and
 * parents are not looked up: whoever read the archive knows all of them, and the unique keys are there still.
 */
export function insertRows(tables: Tables, key: SessionKey, rows: ImportRows): Compilable<unknown>[] {
  const { db, schema } = tables;
  const { usage, setValues, deleteValues, appendLists, deleteLists, entries } = rows.batch;
  return [
    ...(entries.seq.length === 0 ? [] : [insertEntries(db, key, rows)]),
    ...(usage.seq.length === 0 ? [] : [insertUsage(tables, key, usage)]),
    ...(setValues.seq.length === 0 ? [] : [setScalarValues(db, key, setValues)]),
    ...(deleteValues.key.length === 0
      ? []
      : [deletion(db, schema, key, "delete_values", deleteValues, ADDRESS_TYPES)]),
    ...(deleteLists.key.length === 0
      ? []
      : [deletion(db, schema, key, "delete_lists", deleteLists, DELETED_LIST_TYPES)]),
    ...(appendLists.seq.length === 0 ? [] : [appendListValues(db, key, appendLists)]),
    ...(rows.journal.length === 0 ? [] : [insertJournal(db, key, rows.journal)]),
  ];
}

const ENTRY_TYPES = {
  entry_id: "text",
  parent_id: "text",
  seq: "bigint",
  run: "bigint",
  timestamp: "bigint",
  type: "text",
  custom_type: "text",
  role: "text",
  provider: "text",
  model: "text",
  preview: "text",
  payload: "json",
  payload_bytes: "integer",
} as const;

function insertEntries(db: Kysely<DB>, key: SessionKey, { batch: { entries }, runs }: ImportRows) {
  const payload_bytes = entries.payload.map((text) => Buffer.byteLength(text as string | Buffer));
  const rows = rowsOf("e", { ...entries, run: runs, payload_bytes }, ENTRY_TYPES);
  return db
    .insertInto("entries")
    .columns([...KEY, ...namesOf(ENTRY_TYPES)])
    .expression((eb) => eb.selectFrom(rows).select(keyOf(key)).select(namesOf(ENTRY_TYPES)));
}

/** As a commit does, for rows whose entry may have come with an earlier chunk. */
function insertUsage({ db, schema }: Tables, key: SessionKey, usage: WriteBatch["usage"]) {
  return db
    .insertInto("usage_ledger")
    .columns([...KEY, ...namesOf(LEDGER_TYPES), ...ATTRIBUTION_COLUMNS])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("u", usage, USAGE_TYPES))
        .innerJoin("sessions as a", (join) =>
          join.on("a.tenant_id", "=", key.tenantId).on("a.session_id", "=", key.sessionId),
        )
        .leftJoinLateral(
          (entry) =>
            entry
              .selectFrom("entries")
              .select(["provider", "model", "timestamp", "type", "role"])
              .where(isSession(key))
              .where(isExactly("entries.entry_id", sql.ref("u.earlier_entry")))
              .orderBy("entries.entry_id")
              .limit(1)
              .as("e"),
          (join) => join.onTrue(),
        )
        .select(keyOf(key))
        .select(namesOf(LEDGER_TYPES).map((column) => `u.${column}` as const))
        .select(attributionColumns(schema, dimensionsOnce(db, key))),
    );
}

/** A query that depends on no row, so that the server runs it once. */
function dimensionsOnce(db: Kysely<DB>, { tenantId, sessionId }: SessionKey) {
  const query = db
    .selectFrom("sessions as a")
    .innerJoin("tenants as t", (join) => join.on("t.tenant_id", "=", tenantId))
    .select(dimensionsOf().as("dimensions"))
    .where("a.tenant_id", "=", tenantId)
    .where("a.session_id", "=", sessionId);
  return sql<string>`(${query})`;
}

function setScalarValues(db: Kysely<DB>, key: SessionKey, values: WriteBatch["setValues"]) {
  return db
    .insertInto("scalar_values")
    .columns([...KEY, ...namesOf(VALUE_TYPES)])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("v", values, VALUE_TYPES))
        .select(keyOf(key))
        .select(namesOf(VALUE_TYPES)),
    )
    .onConflict((conflict) =>
      conflict
        .columns([...KEY, "namespace", "key"])
        .doUpdateSet((eb) => ({ seq: eb.ref("excluded.seq"), value: eb.ref("excluded.value") })),
    );
}

function appendListValues(db: Kysely<DB>, key: SessionKey, elements: WriteBatch["appendLists"]) {
  return db
    .insertInto("list_values")
    .columns([...KEY, ...namesOf(VALUE_TYPES)])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("l", elements, VALUE_TYPES))
        .select(keyOf(key))
        .select(namesOf(VALUE_TYPES)),
    );
}

const BLOCK_TYPES = { block: "integer", content: "bytea" } as const;

export function insertJournal(db: Kysely<DB>, key: SessionKey, blocks: readonly JournalBlock[]) {
  const columns = {
    block: blocks.map(({ block }) => block),
    content: blocks.map(({ content }) => content),
  };
  return db
    .insertInto("archive_journal")
    .columns([...KEY, ...namesOf(BLOCK_TYPES)])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("j", columns, BLOCK_TYPES))
        .select(keyOf(key))
        .select(namesOf(BLOCK_TYPES)),
    );
}

/** The functions are in sql/0007_planner.sql. */
function deletion<TTypes extends Record<string, SqlType>>(
  db: Kysely<DB>,
  schema: string,
  { tenantId, sessionId }: SessionKey,
  name: "delete_values" | "delete_lists",
  columns: Columns<Extract<keyof TTypes, string>>,
  types: TTypes,
): Compilable<unknown> {
  const call = sql`${sql.id(schema, name)}(${tenantId}::uuid, ${sessionId}::text, ${arraysOf(columns, types)})`;
  return db.selectNoFrom(call.as("deleted"));
}

const KEY = ["tenant_id", "session_id"] as const;

function keyOf({ tenantId, sessionId }: SessionKey) {
  return [
    sql<string>`${tenantId}::uuid`.as("tenant_id"),
    sql<string>`${sessionId}::text`.as("session_id"),
  ] as const;
}

type ColumnType = SqlType | "integer" | "bytea";
type RowOf<TTypes extends Record<string, ColumnType>> = {
  [C in keyof TTypes]: TTypes[C] extends "bigint" | "integer"
    ? number
    : TTypes[C] extends "boolean"
      ? boolean
      : TTypes[C] extends "bytea"
        ? Buffer
        : string;
};

/** Parallel arrays as a table, row by row: `unnest` of all of them in `from` would first collect each one's. */
function rowsOf<TAlias extends string, TTypes extends Record<string, ColumnType>>(
  alias: TAlias,
  columns: Record<Extract<keyof TTypes, string>, readonly ElementValue[]>,
  types: TTypes,
) {
  const unnested = namesOf(types).map(
    (name) => sql`unnest(${arrayOf(types[name] as ColumnType, columns[name])}) as ${sql.ref(name)}`,
  );
  return sql<RowOf<TTypes>>`(select ${sql.join(unnested)})`.as<TAlias>(sql.ref(alias));
}

function arraysOf<TTypes extends Record<string, ColumnType>>(
  columns: Record<Extract<keyof TTypes, string>, readonly ElementValue[]>,
  types: TTypes,
) {
  return sql.join(namesOf(types).map((name) => arrayOf(types[name] as ColumnType, columns[name])));
}

/** Decimals go as their digits. */
function arrayOf(type: ColumnType, values: readonly ElementValue[]) {
  const sent: ElementType = type === "numeric" ? "text" : type;
  const array = sql`${binaryArray(sent, values)}::${sql.raw(sent)}[]`;
  return sent === type ? array : sql`${array}::${sql.raw(type)}[]`;
}

function namesOf<TTypes extends object>(types: TTypes) {
  return Object.keys(types) as Extract<keyof TTypes, string>[];
}
