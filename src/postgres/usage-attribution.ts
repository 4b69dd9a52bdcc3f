import { sql } from "kysely";
import { storableText } from "../contract/text.ts";
import type { UsageRow } from "../contract/write.ts";

/**
 * What the client knows about who spent a usage row, when and on what; `null` where it does not know. The statement
 * that writes the row adds what the session and an entry of an earlier commit say.
 */
export interface Attribution {
  provider: string | null;
  model: string | null;
  spent_at: number | null;
  entry_type: string | null;
  role: string | null;
  /** The entry that the server has to look at. */
  earlier_entry: string | null;
}

/** Columns of an entry that say what it was spent on. */
export interface SpendingEntry {
  readonly provider: string | null;
  readonly model: string | null;
  readonly timestamp: number;
  readonly type: string;
  readonly role: string | null;
}

/** Longest provider, model and role, in characters: they are part of keys. */
export const ATTRIBUTION_LENGTH = 200;

/**
 * The row itself has the first word, in its `details` (`provider`, `model` or `modelId`, `timestamp` in milliseconds up to
 * the year 9999); then the entry that it names.
 *
 * @param entry the entry, if it is in the same commit
 */
export function attributionOf(
  row: Pick<UsageRow, "entryId" | "details"> & { timestamp?: number },
  entry: SpendingEntry | undefined,
): Attribution {
  const details = detailsOf(row.details);
  return {
    provider: details.provider ?? shortened(entry?.provider),
    model: details.model ?? shortened(entry?.model),
    spent_at: [row.timestamp, details.timestamp, entry?.timestamp].find(isTime) ?? null,
    entry_type: entry?.type ?? null,
    role: shortened(entry?.role),
    earlier_entry: entry === undefined ? (row.entryId ?? null) : null,
  };
}

function detailsOf(details: unknown) {
  if (typeof details !== "object" || details === null) return {};
  const { provider, model, modelId, timestamp } = details as Record<string, unknown>;
  return {
    provider: named(provider),
    model: named(model) ?? named(modelId),
    timestamp: timestamp as number | undefined,
  };
}

/** Beginning of the year 10000: what comes later was told in microseconds, or is no time. */
const END_OF_TIME = 253_402_300_800_000;

function isTime(milliseconds: unknown): milliseconds is number {
  const time = Number.isSafeInteger(milliseconds) ? (milliseconds as number) : -1;
  return time >= 0 && time < END_OF_TIME;
}

function named(text: unknown): string | undefined {
  return typeof text === "string" && text !== "" ? (shortened(storableText(text)) as string) : undefined;
}

/** By whole characters, as PostgreSQL counts them. */
function shortened(text: string | null | undefined): string | null {
  if (text == null || text.length <= ATTRIBUTION_LENGTH) return text ?? null;
  return [...text.slice(0, 2 * ATTRIBUTION_LENGTH)].slice(0, ATTRIBUTION_LENGTH).join("").toWellFormed();
}

/** Columns of the ledger that {@link attributionColumns} fills. */
export const ATTRIBUTION_COLUMNS = [
  "provider",
  "model",
  "spent_at",
  "entry_type",
  "role",
  "root_session_id",
  "cwd",
  "dimensions",
  "position",
] as const;

/** What a session's metadata say to the dimensions that its tenant is billed by: `a` is the session and `t` the tenant. */
export function dimensionsOf() {
  return sql<string>`(
    select coalesce(jsonb_object_agg(d.key, left(a.metadata ->> d.key, ${sql.lit(ATTRIBUTION_LENGTH)})), '{}')
    from unnest(t.billing_dimensions) as d(key) where a.metadata ->> d.key is not null)`;
}

/**
 * Completes what the client knows: `u` is the row with its {@link Attribution}, `e` the earlier entry if there is one,
 * `a` the session and `t` the tenant. What nobody knows is `unknown`. `dimensions`: another way to the same.
 */
export function attributionColumns(schema: string, dimensions = dimensionsOf()) {
  const length = sql.lit(ATTRIBUTION_LENGTH);
  return [
    sql<string>`coalesce(u.provider, left(e.provider, ${length}), 'unknown')`.as("provider"),
    sql<string>`coalesce(u.model, left(e.model, ${length}), 'unknown')`.as("model"),
    sql<number>`greatest(coalesce(u.spent_at, e.timestamp, u.timestamp), 0)`.as("spent_at"),
    sql<string>`coalesce(u.entry_type, e.type, 'unknown')`.as("entry_type"),
    sql<string>`coalesce(u.role, left(e.role, ${length}), 'unknown')`.as("role"),
    sql<string>`a.root_session_id`.as("root_session_id"),
    sql<string | null>`a.cwd`.as("cwd"),
    dimensions.as("dimensions"),
    sql<number>`${sql.id(schema, "ledger_position")}()`.as("position"),
  ] as const;
}
