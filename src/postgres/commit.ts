import { type Compilable, type CompiledQuery, type Kysely, sql } from "kysely";
import { sessionName } from "../contract/address.ts";
import {
  DuplicateIdError,
  MissingParentError,
  SessionFencedError,
  SessionNotFoundError,
} from "../contract/errors.ts";
import { storableText } from "../contract/text.ts";
import {
  BudgetExceededError,
  TenantBeingDeletedError,
  TenantLimitError,
  TenantNotFoundError,
  TenantSuspendedError,
} from "./errors.ts";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import { headOf, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import { STATS_COLUMNS, statsColumns } from "./session-row.ts";
import type { Tables } from "./transaction.ts";
import { ATTRIBUTION_COLUMNS, attributionColumns } from "./usage-attribution.ts";
import type { Columns, WriteBatch } from "./write-batch.ts";

/** Moves a session from one head to the next by a few writes. */
export interface Advance {
  /** Stays with the session until the next commit, so that the outcome can be found out. */
  readonly commitId: string;
  /** What the session was opened at. */
  readonly writerEpoch: number;
  readonly from: SessionHead;
  readonly to: SessionHead;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
  readonly batch: WriteBatch;
  /** Whether this goes on with a tenant that has exhausted a hard budget. */
  readonly isWithinBudget: boolean;
  /** The bytes are counted against the tenant's limit later, for all of the session at once. */
  readonly isChargedLater?: boolean;
  /** This commit may have happened already. */
  readonly isUncertain?: boolean;
}

/** What became of an {@link Advance}; nothing was written unless it was applied. */
export type AdvanceOutcome =
  /** `checksBudgets`: the tenant has hard budgets. */
  | { kind: "applied"; checksBudgets: boolean }
  /** Somebody has written since the head was read, perhaps this very commit; `current` is the head now. */
  | { kind: "overtaken"; current: SessionHead; lastCommit: string | null }
  /** The tenant has a limit, and the session has not reserved enough bytes. */
  | { kind: "unreserved" };

type OutcomeRow = ReturnType<typeof buildStatement> extends Compilable<infer TRow> ? TRow : never;

/** @throws DuplicateIdError, MissingParentError, SessionNotFoundError, SessionFencedError, TenantSuspendedError,
 *   TenantLimitError, BudgetExceededError */
export function advanceOutcome(
  found: OutcomeRow | undefined,
  { sessionId }: SessionKey,
  { from, batch, isUncertain, writerEpoch, isWithinBudget }: Advance,
  tenant: string,
): AdvanceOutcome {
  if (found === undefined || found.tenant_id === null) throw new TenantNotFoundError(tenant);
  if (found.applied !== null) return { kind: "applied", checksBudgets: found.hard_budgets === true };
  if (found.next_seq === null) throw new SessionNotFoundError(sessionId);
  const current = headOf({ ...found, next_seq: found.next_seq });
  const overtaken = { kind: "overtaken", current, lastCommit: found.last_commit } as const;
  // Its own rows would now look like somebody else's.
  if (isUncertain === true && current.nextSeq !== from.nextSeq) return overtaken;
  if (found.writer_epoch !== writerEpoch) throw new SessionFencedError(sessionId);
  if (found.deleting === true) throw new TenantBeingDeletedError(tenant);
  if (found.suspended_at !== null) throw new TenantSuspendedError(tenant);
  if (!isWithinBudget && found.exhausted_until !== null) {
    throw new BudgetExceededError(tenant, found.exhausted_until);
  }
  if (found.taken_id !== null) throw new DuplicateIdError(found.taken_id);
  if (found.missing_parent !== null) throw new MissingParentError(found.missing_parent);
  if (found.max_entry_bytes !== null && batch.largestEntryBytes > found.max_entry_bytes) {
    throw new TenantLimitError(tenant, "entryBytes", found.max_entry_bytes);
  }
  return current.nextSeq === from.nextSeq ? { kind: "unreserved" } : overtaken;
}

/** The data of one {@link Advance} in the form that the statement's parameters take. */
interface Input {
  readonly tenantId: string;
  readonly sessionId: string;
  readonly advance: Advance;
  readonly stats: ReturnType<typeof statsColumns>;
  readonly ids: readonly string[];
  readonly replaced: Columns<"namespace" | "key">;
  readonly preview: string | null;
  readonly name: string | null | undefined;
}

/** Stands for a parameter while the statement is compiled. */
class Slot {
  readonly read: (input: Input) => unknown;

  constructor(read: (input: Input) => unknown) {
    this.read = read;
  }
}

/** Typed as what it stands for, since the builder only passes it on. */
function slot<T>(read: (input: Input) => T): T {
  return new Slot(read) as unknown as T;
}

const templates = new WeakMap<Kysely<DB>, Map<boolean, CompiledQuery<OutcomeRow>>>();

/**
 * Writes everything and moves the head in one statement, which succeeds only if the session's head is still the
 * expected one. Its one row is for {@link advanceOutcome}. The text is the same for every commit, for its parameters
 * are arrays, so it is compiled once (twice: with and without the session's name) and then only filled.
 */
export function advanceStatement(
  { db, schema }: Pick<Tables, "db" | "schema">,
  { tenantId, sessionId }: SessionKey,
  advance: Advance,
): Compilable<OutcomeRow> {
  const { batch } = advance;
  const input: Input = {
    tenantId,
    sessionId,
    advance,
    stats: statsColumns(advance.to.stats),
    ids: [...batch.entries.entry_id, ...batch.usage.usage_id] as string[],
    replaced: replacedValues(batch),
    preview: firstPreview(batch),
    name: newName(batch),
  };
  const template = templateOf(db, schema, input.name !== undefined);
  const parameters = template.parameters.map((parameter) =>
    parameter instanceof Slot ? parameter.read(input) : parameter,
  );
  return { compile: () => ({ ...template, parameters }) };
}

function templateOf(db: Kysely<DB>, schema: string, setsName: boolean): CompiledQuery<OutcomeRow> {
  let known = templates.get(db);
  if (known === undefined) {
    known = new Map();
    templates.set(db, known);
  }
  let template = known.get(setsName);
  if (template === undefined) {
    template = buildStatement(db, schema, setsName).compile() as CompiledQuery<OutcomeRow>;
    known.set(setsName, template);
  }
  return template;
}

function buildStatement(db: Kysely<DB>, schema: string, setsName: boolean) {
  const session = {
    tenant_id: slot(({ tenantId }) => tenantId),
    session_id: slot(({ sessionId }) => sessionId),
  };
  const { tenant_id, session_id } = session;
  const isApplied = sql<boolean>`exists (select from applied)`;
  const tenantId = sql<string>`${tenant_id}::uuid`.as("tenant_id");
  const sessionId = sql<string>`${session_id}::text`.as("session_id");
  const bytes = slot(({ advance }) => advance.batch.bytes);
  const storedBytes = sql<number>`stored_bytes + ${bytes}::bigint - (select bytes from released)`;
  const deletion = <TTypes extends Record<string, SqlType>>(
    name: "delete_values" | "delete_lists",
    columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
    types: TTypes,
  ) =>
    sql<null>`(select ${sql.id(schema, name)}(${tenant_id}::uuid, ${session_id}::text, ${arraysOf(columns, types)}) from applied)`.as(
      name,
    );

  return (
    db
      // Ids are unique among entries and usage rows together, which no index can say.
      .with("taken", (cte) =>
        cte
          .selectFrom(sql<{ id: string }>`unnest(${slot(({ ids }) => ids)}::text[])`.as<"new">(sql`new(id)`))
          .select("new.id")
          .where((eb) =>
            eb.or([
              eb.exists(
                eb
                  .selectFrom("entries as e")
                  .select(sql`1`.as("one"))
                  .where("e.tenant_id", "=", session.tenant_id)
                  .where("e.session_id", "=", session.session_id)
                  .where(isExactly("e.entry_id", sql.ref("new.id")))
                  .orderBy("e.entry_id")
                  .offset(ONE_PROBE),
              ),
              eb.exists(
                eb
                  .selectFrom("usage_ledger as u")
                  .select(sql`1`.as("one"))
                  .where("u.tenant_id", "=", session.tenant_id)
                  .where("u.session_id", "=", session.session_id)
                  .where(isExactly("u.usage_id", sql.ref("new.id")))
                  .orderBy("u.usage_id")
                  .offset(ONE_PROBE),
              ),
            ]),
          ),
      )
      // A parent's run goes on with its first child, which is the next entry of the run.
      .with("parent", (cte) =>
        cte
          .selectFrom(
            sql<{
              id: string;
            }>`unnest(${slot(({ advance }) => advance.batch.outsideParents)}::text[])`.as<"wanted">(
              sql`wanted(id)`,
            ),
          )
          .leftJoinLateral(
            (eb) =>
              eb
                .selectFrom("entries")
                .select(["run", "seq"])
                .where("tenant_id", "=", session.tenant_id)
                .where("session_id", "=", session.session_id)
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
                  .where("next.tenant_id", "=", session.tenant_id)
                  .where("next.session_id", "=", session.session_id)
                  .where(isExactly("next.run", sql.ref("e.run")))
                  .whereRef("next.seq", ">", "e.seq")
                  .orderBy("next.run")
                  .orderBy("next.seq")
                  .offset(ONE_PROBE),
              )
              .as("has_child"),
          ),
      )
      // Makes room: what is overwritten or deleted. Probes, as above.
      .with("released", (cte) =>
        cte
          .selectFrom((eb) =>
            eb
              .selectFrom(rowsOf("d", ({ replaced }) => replaced, ADDRESS_TYPES))
              .innerJoinLateral(
                (value) =>
                  value
                    .selectFrom("scalar_values")
                    .select(sql<number>`octet_length(value::text)`.as("bytes"))
                    .where("tenant_id", "=", session.tenant_id)
                    .where("session_id", "=", session.session_id)
                    .whereRef("scalar_values.namespace", "=", "d.namespace")
                    .whereRef("scalar_values.key", "=", "d.key")
                    .limit(1)
                    .as("old"),
                (join) => join.onTrue(),
              )
              .select("old.bytes")
              .unionAll(
                eb
                  .selectFrom(rowsOf("d", ({ advance }) => advance.batch.deleteLists, DELETED_LIST_TYPES))
                  .innerJoinLateral(
                    (list) =>
                      list
                        .selectFrom("list_values")
                        .select(sql<number>`sum(octet_length(value::text))`.as("bytes"))
                        .where("tenant_id", "=", session.tenant_id)
                        .where("session_id", "=", session.session_id)
                        .whereRef("list_values.namespace", "=", "d.namespace")
                        .whereRef("list_values.key", "=", "d.key")
                        .whereRef("list_values.seq", "<", "d.seq")
                        .as("old"),
                    (join) => join.onTrue(),
                  )
                  .select("old.bytes"),
              )
              .as("old"),
          )
          .select(sql<number>`coalesce(sum(old.bytes), 0)::bigint`.as("bytes")),
      )
      .with("tenant", (cte) =>
        cte
          .selectFrom("tenants")
          .select(["tenant_id", "suspended_at", "deleting", "max_entry_bytes", "max_stored_bytes"])
          .select(["billing_dimensions", "hard_budgets"])
          .select(EXHAUSTED_UNTIL.as("exhausted_until"))
          .where("tenant_id", "=", session.tenant_id),
      )
      .with("applied", (cte) =>
        cte
          .updateTable("sessions")
          .set({
            last_commit: slot(({ advance }) => advance.commitId),
            stored_bytes: storedBytes,
            next_seq: slot(({ advance }) => advance.to.nextSeq),
            modified_at: slot(({ advance }) => advance.modifiedAt),
            ...Object.fromEntries(
              STATS_COLUMNS.map((column) => [column, slot(({ stats }) => stats[column])]),
            ),
            ...(setsName ? { name: slot(({ name }) => name ?? null) } : {}),
            first_message: sql`coalesce(first_message, ${slot(({ preview }) => preview)})`,
          })
          .where("tenant_id", "=", session.tenant_id)
          .where("session_id", "=", session.session_id)
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
          .where(sql<boolean>`not exists (select from taken)`)
          .where(sql<boolean>`not exists (select from parent where run is null)`)
          .where(
            sql<boolean>`exists (
              select from tenant as t
              where t.suspended_at is null
                and (t.exhausted_until is null or ${slot(({ advance }) => advance.isWithinBudget)}::boolean)
                and (t.max_entry_bytes is null or ${slot(({ advance }) => advance.batch.largestEntryBytes)}::bigint <= t.max_entry_bytes)
                and (t.max_stored_bytes is null or ${slot(({ advance }) => advance.isChargedLater === true)}::boolean
                     or ${storedBytes} <= greatest(stored_bytes, reserved_bytes)))`,
          )
          .returning(["next_seq", "root_session_id", "cwd", "metadata"]),
      )
      .with("new_entries", (cte) =>
        cte
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
              .select([tenantId, sessionId, "e.entry_id", "e.parent_id", "e.seq", "e.timestamp", "e.type"])
              .select(["e.custom_type", "e.role", "e.provider", "e.model", "e.preview"])
              .select([
                sql<string>`e.payload::json`.as("payload"),
                sql<number>`octet_length(e.payload)`.as("payload_bytes"),
                sql<number>`coalesce(parent.run, e.chain)`.as("run"),
              ])
              .where(isApplied),
          ),
      )
      .with("new_usage", (cte) =>
        cte
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
                    .where("tenant_id", "=", session.tenant_id)
                    .where("session_id", "=", session.session_id)
                    .where(isExactly("entries.entry_id", sql.ref("u.earlier_entry")))
                    .orderBy("entries.entry_id")
                    .limit(1)
                    .as("e"),
                (join) => join.onTrue(),
              )
              .select([tenantId, sessionId])
              .select(columnNames(LEDGER_TYPES).map((column) => `u.${column}` as const))
              .select(attributionColumns(schema)),
          ),
      )
      .with("set_values", (cte) =>
        cte
          .insertInto("scalar_values")
          .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
          .expression((eb) =>
            eb
              .selectFrom(rowsOf("v", ({ advance }) => advance.batch.setValues, VALUE_TYPES))
              .select([tenantId, sessionId, "v.namespace", "v.key", "v.seq", "v.value"])
              .where(isApplied),
          )
          .onConflict((conflict) =>
            conflict
              .columns(["tenant_id", "session_id", "namespace", "key"])
              .doUpdateSet((eb) => ({ seq: eb.ref("excluded.seq"), value: eb.ref("excluded.value") })),
          ),
      )
      .with("appended_lists", (cte) =>
        cte
          .insertInto("list_values")
          .columns(["tenant_id", "session_id", "namespace", "key", "seq", "value"])
          .expression((eb) =>
            eb
              .selectFrom(rowsOf("l", ({ advance }) => advance.batch.appendLists, VALUE_TYPES))
              .select([tenantId, sessionId, "l.namespace", "l.key", "l.seq", "l.value"])
              .where(isApplied),
          ),
      )
      .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
      .leftJoin("tenant as t", (join) => join.onTrue())
      .leftJoin("sessions as s", (join) =>
        join.on("s.tenant_id", "=", session.tenant_id).on("s.session_id", "=", session.session_id),
      )
      .select([
        sql<number | null>`(select next_seq from applied)`.as("applied"),
        sql<string | null>`(select min(id) from taken)`.as("taken_id"),
        sql<string | null>`(select min(id) from parent where run is null)`.as("missing_parent"),
        deletion("delete_values", ({ advance }) => advance.batch.deleteValues, ADDRESS_TYPES),
        deletion("delete_lists", ({ advance }) => advance.batch.deleteLists, DELETED_LIST_TYPES),
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
  );
}

const ENTRY_TYPES = {
  entry_id: "text",
  parent_id: "text",
  seq: "bigint",
  chain: "bigint",
  joins: "text",
  timestamp: "bigint",
  type: "text",
  custom_type: "text",
  role: "text",
  provider: "text",
  model: "text",
  preview: "text",
  payload: "text",
} as const;

/** By the server's clock, so that a process whose clock is wrong cannot go on. */
const EXHAUSTED_UNTIL = sql<
  number | null
>`case when exhausted_until > (extract(epoch from statement_timestamp()) * 1000)::bigint then exhausted_until end`;

export const LEDGER_TYPES = {
  usage_id: "text",
  seq: "bigint",
  timestamp: "bigint",
  entry_id: "text",
  adjustment: "boolean",
  input: "bigint",
  output: "bigint",
  cache_read: "bigint",
  cache_write: "bigint",
  cache_write_1h: "bigint",
  reasoning: "bigint",
  total_tokens: "bigint",
  cost_input: "numeric",
  cost_output: "numeric",
  cost_cache_read: "numeric",
  cost_cache_write: "numeric",
  cost_total: "numeric",
  usage: "json",
  details: "json",
} as const;

export const USAGE_TYPES = {
  ...LEDGER_TYPES,
  provider: "text",
  model: "text",
  spent_at: "bigint",
  entry_type: "text",
  role: "text",
  earlier_entry: "text",
} as const;

export const ADDRESS_TYPES = { namespace: "text", key: "text" } as const;
export const DELETED_LIST_TYPES = { ...ADDRESS_TYPES, seq: "bigint" } as const;
export const VALUE_TYPES = { ...ADDRESS_TYPES, seq: "bigint", value: "json" } as const;

export type SqlType = "text" | "bigint" | "boolean" | "numeric" | "json";
type Row<TTypes extends Record<string, SqlType>> = {
  [C in keyof TTypes]: TTypes[C] extends "bigint" ? number : TTypes[C] extends "boolean" ? boolean : string;
};

/** Parallel arrays as a table: `unnest($1::text[], …) as alias(column, …)`. */
function rowsOf<TAlias extends string, TTypes extends Record<string, SqlType>>(
  alias: TAlias,
  columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
  types: TTypes,
) {
  const aliased = sql`${sql.ref(alias)}(${sql.join(columnNames(types).map((name) => sql.ref(name)))})`;
  return sql<Row<TTypes>>`unnest(${arraysOf(columns, types)})`.as<TAlias>(aliased);
}

function arraysOf<TTypes extends Record<string, SqlType>>(
  columns: (input: Input) => Columns<Extract<keyof TTypes, string>>,
  types: TTypes,
) {
  return sql.join(
    columnNames(types).map(
      (name) => sql`${slot((input) => columns(input)[name])}::${sql.raw(`${types[name]}[]`)}`,
    ),
  );
}

function columnNames<TTypes extends Record<string, SqlType>>(types: TTypes) {
  return Object.keys(types) as Extract<keyof TTypes, string>[];
}

/**
 * The listing shows the session's name in a form that `text` can hold. `undefined`: this commit does not change it.
 */
export function newName({ setValues, deleteValues }: WriteBatch): string | null | undefined {
  const isName = (columns: Columns<"namespace" | "key">) =>
    columns.namespace.findIndex(
      (namespace, row) => namespace === sessionName.namespace && columns.key[row] === sessionName.key,
    );
  if (isName(deleteValues) !== -1) return null;
  const row = isName(setValues);
  if (row === -1) return undefined;
  const name: unknown = JSON.parse(setValues.value[row] as string);
  return typeof name === "string" ? storableText(name) : null;
}

/** Where there may be a value that this commit overwrites or deletes. */
function replacedValues({ setValues, deleteValues }: WriteBatch): Columns<"namespace" | "key"> {
  return {
    namespace: [...setValues.namespace, ...deleteValues.namespace],
    key: [...setValues.key, ...deleteValues.key],
  };
}

export function firstPreview({ entries }: WriteBatch): string | null {
  return (entries.preview.find((preview) => preview !== null) ?? null) as string | null;
}
