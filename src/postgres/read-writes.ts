import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { EntryStructure } from "../contract/entry.ts";
import { STRUCTURE_COLUMNS, structureOf } from "./entry-columns.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { assertNotAborted, type Transaction } from "./transaction.ts";

/** A write that still counts: nothing that was overwritten or deleted. JSON is as it is stored. */
export type StoredWrite = StoredEntry | StoredUsage | StoredValueWrite;

export interface StoredEntry extends EntryStructure {
  kind: "entry";
  /** JSON object with all other fields. */
  payload: string;
  /** Of a message. */
  role: string | null;
}

export interface StoredUsage {
  kind: "usage";
  id: string;
  seq: number;
  /** Milliseconds since the epoch. */
  timestamp: number;
  entryId: string | null;
  adjustment: boolean;
  usage: string;
  details: string | null;
  /** Those of the message that it is for. */
  provider: string | null;
  model: string | null;
}

/** A value that is set, or an element of a list. */
export interface StoredValueWrite {
  kind: "value" | "list";
  seq: number;
  namespace: string;
  key: string;
  value: string;
}

/** Where a write is, and what it takes in bytes. */
interface Place {
  kind: StoredWrite["kind"];
  seq: number;
  namespace: string | null;
  key: string | null;
  bytes: number;
}

const PLACES_PER_FETCH = 1_000;
/** More are read only where a single write takes more. */
const GROUP_BYTES = 1024 * 1024;

/**
 * Reads a session in the order of `seq`. A cursor tells first where the writes are and how big, so that each group
 * can be as big as memory allows and no bigger: values have no index by `seq`, and their sizes are known to none.
 */
export async function* readWrites(
  trx: Transaction,
  key: SessionKey,
  fromSeq: number,
  context: Context,
): AsyncGenerator<StoredWrite[]> {
  await trx.send(sql`declare writes no scroll cursor for ${placesStatement(trx.db, key, fromSeq)}`);
  for (;;) {
    assertNotAborted(context);
    const [places] = await trx.send(sql<Place>`fetch ${sql.lit(PLACES_PER_FETCH)} from writes`);
    for (const group of groupsOf(places)) {
      assertNotAborted(context);
      yield await readGroup(trx, key, group);
    }
    if (places.length < PLACES_PER_FETCH) return;
  }
}

function* groupsOf(places: readonly Place[]): Generator<Place[]> {
  let group: Place[] = [];
  let bytes = 0;
  for (const place of places) {
    if (group.length > 0 && bytes + place.bytes > GROUP_BYTES) {
      yield group;
      group = [];
      bytes = 0;
    }
    group.push(place);
    bytes += place.bytes;
  }
  if (group.length > 0) yield group;
}

function placesStatement(db: Kysely<DB>, key: SessionKey, fromSeq: number) {
  const nowhere = sql<string | null>`null::text collate "C"`;
  const kind = (name: StoredWrite["kind"]) => sql<StoredWrite["kind"]>`${sql.lit(name)}`.as("kind");
  const size = (column: string) => sql<number>`octet_length(${sql.ref(column)}::text)`.as("bytes");
  return db
    .selectFrom("entries")
    .select([kind("entry"), "seq", nowhere.as("namespace"), nowhere.as("key"), "payload_bytes as bytes"])
    .where(isSession(key))
    .where("seq", ">=", fromSeq)
    .unionAll(
      db
        .selectFrom("usage_ledger")
        .select([kind("usage"), "seq", nowhere.as("namespace"), nowhere.as("key"), size("usage")])
        .where(isSession(key))
        .where("seq", ">=", fromSeq),
    )
    .unionAll(
      db
        .selectFrom("scalar_values")
        .select([kind("value"), "seq", "namespace", "key", size("value")])
        .where(isSession(key))
        .where("seq", ">=", fromSeq),
    )
    .unionAll(
      db
        .selectFrom("list_values")
        .select([kind("list"), "seq", "namespace", "key", size("value")])
        .where(isSession(key))
        .where("seq", ">=", fromSeq),
    )
    .orderBy("seq");
}

async function readGroup(
  trx: Transaction,
  key: SessionKey,
  places: readonly Place[],
): Promise<StoredWrite[]> {
  const first = places[0]?.seq as number;
  const last = places.at(-1)?.seq as number;
  const [entries, usage, values, elements] = await trx.send(
    entriesStatement(trx.db, key, first, last),
    usageStatement(trx.db, key, first, last),
    valuesStatement(trx.db, key, placesOf(places, "value")),
    elementsStatement(trx.db, key, placesOf(places, "list")),
  );
  const writes: StoredWrite[] = [
    ...entries.map((row) => ({
      kind: "entry" as const,
      ...structureOf(row),
      payload: row.payload,
      role: row.role,
    })),
    ...usage.map(({ usage_id: id, entry_id: entryId, ...row }) => ({
      kind: "usage" as const,
      id,
      entryId,
      ...row,
    })),
    ...values.map((row) => ({ kind: "value" as const, ...row })),
    ...elements.map((row) => ({ kind: "list" as const, ...row })),
  ];
  return writes.sort((left, right) => left.seq - right.seq);
}

function placesOf(places: readonly Place[], kind: "value" | "list"): Place[] {
  return places.filter((place) => place.kind === kind);
}

function entriesStatement(db: Kysely<DB>, key: SessionKey, first: number, last: number) {
  return db
    .selectFrom("entries")
    .select([...STRUCTURE_COLUMNS, "role", sql<string>`payload::text`.as("payload")])
    .where(isSession(key))
    .where("seq", ">=", first)
    .where("seq", "<=", last)
    .orderBy("seq");
}

function usageStatement(db: Kysely<DB>, key: SessionKey, first: number, last: number) {
  return db
    .selectFrom("usage_ledger as u")
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom("entries")
          .select(["provider", "model"])
          .where(isSession(key))
          .where(isExactly("entries.entry_id", sql.ref("u.entry_id")))
          .orderBy("entries.entry_id")
          .limit(1)
          .as("e"),
      (join) => join.onTrue(),
    )
    .select(["u.usage_id", "u.seq", "u.timestamp", "u.entry_id", "u.adjustment", "e.provider", "e.model"])
    .select([sql<string>`u.usage::text`.as("usage"), sql<string | null>`u.details::text`.as("details")])
    .where("u.tenant_id", "=", key.tenantId)
    .where("u.session_id", "=", key.sessionId)
    .where("u.seq", ">=", first)
    .where("u.seq", "<=", last)
    .orderBy("u.seq");
}

function valuesStatement(db: Kysely<DB>, key: SessionKey, places: readonly Place[]) {
  const namespaces = places.map(({ namespace }) => namespace);
  const keys = places.map((place) => place.key);
  return db
    .selectFrom(
      sql<{ namespace: string; key: string }>`unnest(${namespaces}::text[], ${keys}::text[])`.as<"place">(
        sql`place(namespace, key)`,
      ),
    )
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom("scalar_values as v")
          .select(["v.seq", "v.namespace", "v.key", "v.value"])
          .where("v.tenant_id", "=", key.tenantId)
          .where("v.session_id", "=", key.sessionId)
          .where(isExactly("v.namespace", sql.ref("place.namespace")))
          .where(isExactly("v.key", sql.ref("place.key")))
          .orderBy("v.namespace")
          .orderBy("v.key")
          .limit(1)
          .as("found"),
      (join) => join.onTrue(),
    )
    .select(["found.seq", "found.namespace", "found.key", sql<string>`found.value::text`.as("value")]);
}

function elementsStatement(db: Kysely<DB>, key: SessionKey, places: readonly Place[]) {
  const namespaces = places.map(({ namespace }) => namespace);
  const keys = places.map((place) => place.key);
  const seqs = places.map(({ seq }) => seq);
  return db
    .selectFrom(
      sql<{
        namespace: string;
        key: string;
        seq: number;
      }>`unnest(${namespaces}::text[], ${keys}::text[], ${seqs}::bigint[])`.as<"place">(
        sql`place(namespace, key, seq)`,
      ),
    )
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom("list_values as v")
          .select(["v.seq", "v.namespace", "v.key", "v.value"])
          .where("v.tenant_id", "=", key.tenantId)
          .where("v.session_id", "=", key.sessionId)
          .where(isExactly("v.namespace", sql.ref("place.namespace")))
          .where(isExactly("v.key", sql.ref("place.key")))
          .where(isExactly("v.seq", sql.ref("place.seq")))
          .orderBy("v.namespace")
          .orderBy("v.key")
          .orderBy("v.seq")
          .limit(1)
          .as("found"),
      (join) => join.onTrue(),
    )
    .select(["found.seq", "found.namespace", "found.key", sql<string>`found.value::text`.as("value")]);
}

/** The `seq` of entries, a probe for each. */
export function seqsStatement(db: Kysely<DB>, key: SessionKey, entryIds: readonly string[]) {
  return db
    .selectFrom(sql<{ id: string }>`unnest(${entryIds}::text[])`.as<"wanted">(sql`wanted(id)`))
    .innerJoinLateral(
      (eb) =>
        eb
          .selectFrom("entries")
          .select(["entry_id", "seq"])
          .where(isSession(key))
          .where(isExactly("entry_id", sql.ref("wanted.id")))
          .orderBy("entry_id")
          .limit(1)
          .as("found"),
      (join) => join.onTrue(),
    )
    .select(["found.entry_id", "found.seq"]);
}

export function valueStatement(db: Kysely<DB>, key: SessionKey, namespace: string, name: string) {
  return db
    .selectFrom("scalar_values")
    .select(["seq", sql<string>`value::text`.as("value")])
    .where(isSession(key))
    .where("namespace", "=", namespace)
    .where("key", "=", name);
}

export function firstSeqStatement(
  db: Kysely<DB>,
  key: SessionKey,
  { kind, namespace, key: name }: { kind: "value" | "list"; namespace: string; key: string },
) {
  return db
    .selectFrom(kind === "value" ? "scalar_values" : "list_values")
    .select("seq")
    .where(isSession(key))
    .where("namespace", "=", namespace)
    .where("key", "=", name)
    .orderBy("seq")
    .limit(1);
}
