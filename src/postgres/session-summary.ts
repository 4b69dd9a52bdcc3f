import { type Kysely, sql } from "kysely";
import { branchTip } from "../contract/address.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { DB } from "./schema.generated.ts";
import {
  METADATA_COLUMNS,
  type MetadataRow,
  metadataOf,
  type PgSessionMetadata,
  STATS_COLUMNS,
  type StatsRow,
  statsOf,
} from "./session-row.ts";

/** What a person picks a session by. */
export interface SessionSummary {
  /** What identifies and describes the session. */
  metadata: PgSessionMetadata;
  /** Its name, with U+FFFD for characters that a text column cannot hold; `undefined` if it has none. */
  name: string | undefined;
  /** Beginning of the first user message: up to 200 UTF-16 units on one line; `undefined` if there is none. */
  firstMessage: string | undefined;
  /** Time of the last commit, or of its creation, in milliseconds since the epoch. */
  modifiedAt: number;
  /** Its number of messages, and the sum of its usage ledger. */
  stats: SessionStats;
  /** Last entry of the branch `main`; `null` while the branch is empty, `undefined` if there is no such branch. */
  mainTipId: string | null | undefined;
}

export const SUMMARY_COLUMNS = [
  ...METADATA_COLUMNS,
  ...STATS_COLUMNS,
  "name",
  "first_message",
  "modified_at",
] as const;

export interface SummaryRow extends MetadataRow, StatsRow {
  name: string | null;
  first_message: string | null;
  modified_at: number;
  main_tip: string | null;
}

const MAIN = branchTip("main");

/** The text of the value that `main` ends with, for a statement that has the row of a session as `alias`. */
export function mainTip(db: Kysely<DB>, alias: string) {
  const tip = db
    .selectFrom("scalar_values as v")
    .select(sql<string>`v.value::text`.as("tip"))
    .whereRef("v.tenant_id", "=", sql.ref(`${alias}.tenant_id`))
    .whereRef("v.session_id", "=", sql.ref(`${alias}.session_id`))
    .where("v.namespace", "=", MAIN.namespace)
    .where("v.key", "=", MAIN.key)
    .limit(1);
  return sql<string | null>`(${tip})`.as("main_tip");
}

export function summaryOf(row: SummaryRow): SessionSummary {
  const tip: unknown = row.main_tip === null ? undefined : JSON.parse(row.main_tip);
  return {
    metadata: metadataOf(row),
    name: row.name ?? undefined,
    firstMessage: row.first_message ?? undefined,
    modifiedAt: row.modified_at,
    stats: statsOf(row),
    // A tip is a value, so anybody may have stored something that is not an entry id.
    mainTipId: typeof tip === "string" || tip === null ? tip : undefined,
  };
}
