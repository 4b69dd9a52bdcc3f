import { type Kysely, type QueryCreator, sql } from "kysely";
import {
  ADDRESS_TYPES,
  columnNames,
  DELETED_LIST_TYPES,
  ENTRY_TYPES,
  LEDGER_TYPES,
  type SqlType,
  USAGE_TYPES,
  VALUE_TYPES,
} from "./batch-types.ts";
import { arraysOf, type Input, rowsOf, slot } from "./commit-parameters.ts";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import { STATS_COLUMNS } from "./session-row.ts";
import { ATTRIBUTION_COLUMNS, attributionColumns } from "./usage-attribution.ts";
import type { Columns } from "./write-batch.ts";

/**
 * What a commit has anything of. The rest is left out of its statement: even for no row, the server opens a table with
 * all its indexes.
 */
export interface CommitParts {
  readonly entries: boolean;
  readonly usage: boolean;
  /** Deleted values, and lists. */
  readonly rare: boolean;
  /** The session's name. */
  readonly name: boolean;
}

/** Writes everything and moves the head, or does nothing and returns what was in the way. One row. */
export function buildStatement(db: Kysely<DB>, schema: string, parts: CommitParts) {
  const { entries, usage, rare } = parts;
  const addsIds = entries || usage;
  return withParts(db, [
    addsIds && ["taken", takenIds],
    entries && ["parent", parents],
    ["released", (cte) => releasedBytes(cte, parts)],
    ["tenant", tenantRow],
    ["applied", (cte) => moveHead(cte, parts)],
    entries && ["new_entries", insertEntries],
    usage && ["new_usage", (cte) => insertUsage(cte, schema)],
    ["set_values", setValues],
    rare && ["appended_lists", appendLists],
  ])
    .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
    .leftJoin("tenant as t", (join) => join.onTrue())
    .leftJoin("sessions as s", (join) =>
      join.on("s.tenant_id", "=", TENANT_ID).on("s.session_id", "=", SESSION_ID),
    )
    .select([
      sql<number | null>`(select next_seq from applied)`.as("applied"),
      (addsIds ? sql<string | null>`(select min(id) from taken)` : NO_TEXT).as("taken_id"),
      (entries ? sql<string | null>`(select min(id) from parent where run is null)` : NO_TEXT).as(
        "missing_parent",
      ),
      "s.next_seq",
      "s.last_commit",
      "s.writer_epoch",
      "t.tenant_id",
      "t.suspended_at",
      "t.deleting",
      "t.max_entry_bytes",
      "t.hard_budgets",
      "t.exhausted_until",
    ])
    .select(STATS_COLUMNS.map((column) => `s.${column}` as const))
    .$if(rare, (outcome) => outcome.select(deletions(schema)));
}

const TENANT_ID = slot(({ tenantId }) => tenantId);
const SESSION_ID = slot(({ sessionId }) => sessionId);
const KEY = [
  sql<string>`${TENANT_ID}::uuid`.as("tenant_id"),
  sql<string>`${SESSION_ID}::text`.as("session_id"),
] as const;
const IS_APPLIED = sql<boolean>`exists (select from applied)`;
const NO_TEXT = sql<string | null>`null::text`;

/** What the parts of the statement know of each other. */
interface Ctes {
  parent: { id: string; run: number | null; has_child: boolean };
  tenant: Pick<DB["tenants"], (typeof TENANT_COLUMNS)[number]> & { exhausted_until: number | null };
  applied: Pick<DB["sessions"], "next_seq" | "root_session_id" | "cwd" | "metadata">;
}

type Creator = QueryCreator<DB & Ctes>;
type Part = readonly [name: string, (cte: Creator) => unknown];

function withParts(db: Kysely<DB>, parts: readonly (Part | false)[]): Creator {
  return parts
    .filter((part) => part !== false)
    .reduce(
      (statement, [name, part]) => statement.with(name, (cte) => part(cte as never) as never) as never,
      db as unknown as Creator,
    );
}

/** Ids are unique among entries and usage rows together, which no index can say. */
function takenIds(cte: Creator) {
  return cte
    .selectFrom(sql<{ id: string }>`unnest(${slot(({ ids }) => ids)}::text[])`.as<"new">(sql`new(id)`))
    .select("new.id")
    .where((eb) =>
      eb.or([
        eb.exists(
          eb
            .selectFrom("entries as e")
            .select(sql`1`.as("one"))
            .where("e.tenant_id", "=", TENANT_ID)
            .where("e.session_id", "=", SESSION_ID)
            .where(isExactly("e.entry_id", sql.ref("new.id")))
            .orderBy("e.entry_id")
            .offset(ONE_PROBE),
        ),
        eb.exists(
          eb
            .selectFrom("usage_ledger as u")
            .select(sql`1`.as("one"))
            .where("u.tenant_id", "=", TENANT_ID)
            .where("u.session_id", "=", SESSION_ID)
            .where(isExactly("u.usage_id", sql.ref("new.id")))
            .orderBy("u.usage_id")
            .offset(ONE_PROBE),
        ),
      ]),
    );
}

/** A parent's run goes on with its first child, which is the next entry of the run. */
function parents(cte: Creator) {
  const ids = slot(({ advance }) => advance.batch.outsideParents);
  return cte
    .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<"wanted">(sql`wanted(id)`))
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom("entries")
          .select(["run", "seq"])
          .where("tenant_id", "=", TENANT_ID)
          .where("session_id", "=", SESSION_ID)
          .where(isExactly("entries.entry_id", sql.ref("wanted.id")))
          .orderBy("entries.entry_id")
          .limit(1)
          .as("e"),
      (join) => join.onTrue(),
    )
    .select(["wanted.id", "e.run"])
    .select((eb) =>
      eb
        .exists(
          eb
            .selectFrom("entries as next")
            .select(sql`1`.as("one"))
            .where("next.tenant_id", "=", TENANT_ID)
            .where("next.session_id", "=", SESSION_ID)
            .where(isExactly("next.run", sql.ref("e.run")))
            .whereRef("next.seq", ">", "e.seq")
            .orderBy("next.run")
            .orderBy("next.seq")
            .offset(ONE_PROBE),
        )
        .as("has_child"),
    );
}

/** Makes room: what is overwritten or deleted. Probes, as above. */
function releasedBytes(cte: Creator, { rare }: CommitParts) {
  return cte
    .selectFrom((rare ? replacedBytes(cte).unionAll(deletedListBytes(cte)) : replacedBytes(cte)).as("old"))
    .select(sql<number>`coalesce(sum(old.bytes), 0)::bigint`.as("bytes"));
}

function replacedBytes(cte: Creator) {
  return cte
    .selectFrom(rowsOf("d", ({ replaced }) => replaced, ADDRESS_TYPES))
    .innerJoinLateral(
      (value) =>
        value
          .selectFrom("scalar_values")
          .select(sql<number>`octet_length(value::text)`.as("bytes"))
          .where("tenant_id", "=", TENANT_ID)
          .where("session_id", "=", SESSION_ID)
          .whereRef("scalar_values.namespace", "=", "d.namespace")
          .whereRef("scalar_values.key", "=", "d.key")
          .limit(1)
          .as("old"),
      (join) => join.onTrue(),
    )
    .select("old.bytes");
}

function deletedListBytes(cte: Creator) {
  return cte
    .selectFrom(rowsOf("d", ({ advance }) => advance.batch.deleteLists, DELETED_LIST_TYPES))
    .innerJoinLateral(
      (list) =>
        list
          .selectFrom("list_values")
          .select(sql<number>`sum(octet_length(value::text))`.as("bytes"))
          .where("tenant_id", "=", TENANT_ID)
          .where("session_id", "=", SESSION_ID)
          .whereRef("list_values.namespace", "=", "d.namespace")
          .whereRef("list_values.key", "=", "d.key")
          .whereRef("list_values.seq", "<", "d.seq")
          .as("old"),
      (join) => join.onTrue(),
    )
    .select("old.bytes");
}

const TENANT_COLUMNS = [
  "tenant_id",
  "suspended_at",
  "deleting",
  "max_entry_bytes",
  "max_stored_bytes",
  "billing_dimensions",
  "hard_budgets",
] as const;

/** By the server's clock, so that a process whose clock is wrong cannot go on. */
const EXHAUSTED_UNTIL = sql<
  number | null
>`case when exhausted_until > (extract(epoch from statement_timestamp()) * 1000)::bigint then exhausted_until end`;

function tenantRow(cte: Creator) {
  return cte
    .selectFrom("tenants")
    .select(TENANT_COLUMNS)
    .select(EXHAUSTED_UNTIL.as("exhausted_until"))
    .where("tenant_id", "=", TENANT_ID);
}

/** The compare-and-swap. Everything else happens only if this finds its row. */
function moveHead(cte: Creator, { entries, usage, name }: CommitParts) {
  return cte
    .updateTable("sessions")
    .set({
      last_commit: slot(({ advance }) => advance.commitId),
      stored_bytes: STORED_BYTES,
      next_seq: slot(({ advance }) => advance.to.nextSeq),
      modified_at: slot(({ advance }) => advance.modifiedAt),
      ...Object.fromEntries(STATS_COLUMNS.map((column) => [column, slot(({ stats }) => stats[column])])),
      ...(name ? { name: slot((input) => input.name ?? null) } : {}),
      ...(entries ? { first_message: sql`coalesce(first_message, ${slot(({ preview }) => preview)})` } : {}),
    })
    .where("tenant_id", "=", TENANT_ID)
    .where("session_id", "=", SESSION_ID)
    .where(
      "next_seq",
      "=",
      slot(({ advance }) => advance.from.nextSeq),
    )
    .where(
      "writer_epoch",
      "=",
      slot(({ advance }) => advance.writerEpoch),
    )
    .$if(entries || usage, (head) => head.where(sql<boolean>`not exists (select from taken)`))
    .$if(entries, (head) => head.where(sql<boolean>`not exists (select from parent where run is null)`))
    .where(IS_ALLOWED)
    .returning(["next_seq", "root_session_id", "cwd", "metadata"]);
}

const STORED_BYTES = sql<number>`stored_bytes + ${slot(({ advance }) => advance.batch.bytes)}::bigint - (select bytes from released)`;

/** By the tenant. */
const IS_ALLOWED = sql<boolean>`exists (
  select from tenant as t
  where t.suspended_at is null
    and (t.exhausted_until is null or ${slot(({ advance }) => advance.isWithinBudget)}::boolean)
    and (t.max_entry_bytes is null or ${slot(({ advance }) => advance.batch.largestEntryBytes)}::bigint <= t.max_entry_bytes)
    and (t.max_stored_bytes is null or ${slot(({ advance }) => advance.isChargedLater === true)}::boolean
         or ${STORED_BYTES} <= greatest(stored_bytes, reserved_bytes)))`;

function insertEntries(cte: Creator) {
  return cte
    .insertInto("entries")
    .columns([
      "tenant_id",
      "session_id",
      "entry_id",
      "parent_id",
      "seq",
      "timestamp",
      "type",
      "custom_type",
      "role",
      "provider",
      "model",
      "preview",
      "payload",
      "payload_bytes",
      "run",
    ])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("e", ({ advance }) => advance.batch.entries, ENTRY_TYPES))
        .leftJoin("parent", (join) =>
          join.onRef("parent.id", "=", "e.joins").on("parent.has_child", "=", false),
        )
        .select(KEY)
        .select(["e.entry_id", "e.parent_id", "e.seq", "e.timestamp", "e.type"])
        .select(["e.custom_type", "e.role", "e.provider", "e.model", "e.preview"])
        .select([
          sql<string>`e.payload::json`.as("payload"),
          sql<number>`octet_length(e.payload)`.as("payload_bytes"),
          sql<number>`coalesce(parent.run, e.chain)`.as("run"),
        ])
        .where(IS_APPLIED),
    );
}

function insertUsage(cte: Creator, schema: string) {
  return cte
    .insertInto("usage_ledger")
    .columns(["tenant_id", "session_id", ...columnNames(LEDGER_TYPES), ...ATTRIBUTION_COLUMNS])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("u", ({ advance }) => advance.batch.usage, USAGE_TYPES))
        .innerJoin("applied as a", (join) => join.onTrue())
        .innerJoin("tenant as t", (join) => join.onTrue())
        .leftJoinLateral(
          (entry) =>
            entry
              .selectFrom("entries")
              .select(["provider", "model", "timestamp", "type", "role"])
              .where("tenant_id", "=", TENANT_ID)
              .where("session_id", "=", SESSION_ID)
              .where(isExactly("entries.entry_id", sql.ref("u.earlier_entry")))
              .orderBy("entries.entry_id")
              .limit(1)
              .as("e"),
          (join) => join.onTrue(),
        )
        .select(KEY)
        .select(columnNames(LEDGER_TYPES).map((column) => `u.${column}` as const))
        .select(attributionColumns(schema)),
    );
}

function setValues(cte: Creator) {
  return cte
    .insertInto("scalar_values")
    .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("v", ({ advance }) => advance.batch.setValues, VALUE_TYPES))
        .select(KEY)
        .select(["v.namespace", "v.key", "v.seq", "v.value"])
        .where(IS_APPLIED),
    )
    .onConflict((conflict) =>
      conflict
        .columns(["tenant_id", "session_id", "namespace", "key"])
        .doUpdateSet((eb) => ({ seq: eb.ref("excluded.seq"), value: eb.ref("excluded.value") })),
    );
}

function appendLists(cte: Creator) {
  return cte
    .insertInto("list_values")
    .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
    .expression((eb) =>
      eb
        .selectFrom(rowsOf("l", ({ advance }) => advance.batch.appendLists, VALUE_TYPES))
        .select(KEY)
        .select(["l.namespace", "l.key", "l.seq", "l.value"])
        .where(IS_APPLIED),
    );
}

/** By functions that are in sql/0007_planner.sql. */
function deletions(schema: string) {
  const call = <TTypes extends Record<string, SqlType>>(
    name: "delete_values" | "delete_lists",
    columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
    types: TTypes,
  ) =>
    sql<null>`(select ${sql.id(schema, name)}(${TENANT_ID}::uuid, ${SESSION_ID}::text, ${arraysOf(columns, types)}) from applied)`.as(
      name,
    );
  return [
    call("delete_values", ({ advance }) => advance.batch.deleteValues, ADDRESS_TYPES),
    call("delete_lists", ({ advance }) => advance.batch.deleteLists, DELETED_LIST_TYPES),
  ];
}
