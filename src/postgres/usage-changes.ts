import { type Kysely, sql } from "kysely";
import { validate as isUuid } from "uuid";
import type { Context } from "../contract/context.ts";
import { InvalidCursorError } from "./errors.ts";
import { cursorOf, readCursor } from "./page-cursor.ts";
import type { DB } from "./schema.generated.ts";
import { assertSeesLedger } from "./sees-ledger.ts";
import type { Tenant } from "./tenant-id.ts";
import { read, type Tables } from "./transaction.ts";
import { costOf, SPENT_COLUMNS, tokensOf } from "./usage-columns.ts";

/** A row of the ledger, with what it was attributed to. */
export interface UsageChange {
  /** Where to go on after this row: pass it as `after`. */
  cursor: string;
  /** Id of the tenant, a UUID. With `sessionId` and `id` the key of the row, for whoever must not count it twice. */
  tenantId: string;
  /** Id of the session. */
  sessionId: string;
  /** Id of the row in its session. */
  id: string;
  /** When the row was committed, in milliseconds since the epoch; of an imported row, when it was spent. */
  recordedAt: number;
  /** When the response was there, in milliseconds since the epoch. */
  spentAt: number;
  /** The entry that caused it, if the row names one. */
  entryId?: string;
  /** Type of that entry; `unknown` without one. */
  entryType: string;
  /** Role of that entry's message; `unknown` without one. */
  role: string;
  /** `unknown` where nobody said. */
  provider: string;
  /** `unknown` where nobody said. */
  model: string;
  /** The session that began the family of forks. */
  rootSessionId: string;
  /** Working directory of the session, if it has one. */
  cwd?: string;
  /** Values of the session's metadata under the tenant's billing dimensions. */
  dimensions: Readonly<Record<string, string>>;
  /** Whether this corrects rather than calls. */
  adjustment: boolean;
  /** Input tokens that were neither read from nor written to a cache. */
  input: number;
  /** Output tokens, those of `reasoning` included. */
  output: number;
  /** Input tokens that were read from a cache. */
  cacheRead: number;
  /** Input tokens that were written to a cache, those of `cacheWrite1h` included. */
  cacheWrite: number;
  /** The part of `cacheWrite` that is kept for an hour; absent where the provider does not tell. */
  cacheWrite1h?: number;
  /** The part of `output` that was spent on reasoning; absent where the provider does not tell. */
  reasoning?: number;
  /** As the provider counts them. */
  totalTokens: number;
  /** US dollars, as exact decimals. */
  cost: { input: string; output: string; cacheRead: string; cacheWrite: string; total: string };
}

/** Which rows to read. */
export interface UsageChangesOptions {
  /** Slug of a tenant. Default: all tenants, which the owner and analysts see. */
  tenant?: string;
  /** The `cursor` of the last row that was read before. Default: from the beginning. */
  after?: string;
}

const ROWS_PER_READ = 1_000;

/**
 * Every row of the ledger once, in an order that stays, up to what is settled when this begins. A row has the position
 * of its transaction, and positions are read in windows that no running transaction can write into any more: so
 * nothing appears behind a reader. In a window, the rows come tenant by tenant.
 *
 * @throws InvalidCursorError, DatabasePermissionError
 */
export async function* usageChanges(
  tables: Tables,
  tenant: Tenant | undefined,
  after: string | undefined,
  context: Context,
): AsyncGenerator<UsageChange> {
  const scope = tenant?.tenantId ?? "";
  const resumed = after === undefined ? undefined : placeOf(after, scope);
  if (tenant === undefined) await assertSeesLedger(tables, context);
  const horizon = await readHorizon(tables, context);
  if (resumed !== undefined) yield* window(tables, scope, resumed, context);
  const from = resumed?.to ?? 0;
  if (from < horizon) yield* window(tables, scope, { ...BEFORE_ALL, from, to: horizon }, context);
}

/** How far somebody has read of a window from one position to another: up to a row of a tenant. */
interface Place extends RowPlace {
  readonly from: number;
  readonly to: number;
  readonly tenantId: string;
}

interface RowPlace {
  readonly position: number;
  readonly sessionId: string;
  readonly seq: number;
}

const BEFORE_ALL = { tenantId: "", position: -1, sessionId: "", seq: 0 };

async function* window(
  tables: Tables,
  scope: string,
  start: Place,
  context: Context,
): AsyncGenerator<UsageChange> {
  const tenants = scope === "" ? await spendingTenants(tables, start, context) : [scope];
  for (const tenantId of tenants) {
    let place: Place = tenantId === start.tenantId ? start : { ...start, ...BEFORE_ALL, tenantId };
    for (let isMore = true; isMore; ) {
      const rows = await read(tables, context, (db) => rowsAfter(db, place));
      for (const row of rows) {
        place = { ...place, position: row.position, sessionId: row.session_id, seq: row.seq };
        yield changeOf(row, changeCursor(scope, place));
      }
      isMore = rows.length === ROWS_PER_READ;
    }
  }
}

async function readHorizon(tables: Tables, context: Context): Promise<number> {
  const [row] = await read(
    tables,
    context,
    () => sql<{ horizon: number }>`select ${sql.id(tables.schema, "ledger_horizon")}() as horizon`,
  );
  return row?.horizon ?? 0;
}

/** Tenants that have rows in the window, from the place on, in their order. From one to the next it is one probe. */
async function spendingTenants(
  tables: Tables,
  { tenantId, from, to }: Place,
  context: Context,
): Promise<string[]> {
  const ledger = sql.id(tables.schema, "usage_ledger");
  const first = tenantId === "" ? sql`` : sql`where u.tenant_id >= ${tenantId}::uuid`;
  const rows = await read(
    tables,
    context,
    () => sql<{ tenant_id: string }>`
      with recursive known (tenant_id) as (
        (select u.tenant_id from ${ledger} as u ${first} order by u.tenant_id limit 1)
        union all
        select (
          select u.tenant_id from ${ledger} as u where u.tenant_id > known.tenant_id order by u.tenant_id limit 1
        ) from known where known.tenant_id is not null
      )
      select known.tenant_id from known
      where exists (
        select from ${ledger} as u
        where u.tenant_id = known.tenant_id and u.position >= ${from} and u.position < ${to}
        order by u.position limit 1
      )`,
  );
  return rows.map((row) => row.tenant_id).sort();
}

function rowsAfter(db: Kysely<DB>, { tenantId, from, to, position, sessionId, seq }: Place) {
  return db
    .selectFrom("usage_ledger")
    .select(["tenant_id", "session_id", "usage_id", "seq", "position", "timestamp", "spent_at"])
    .select(["entry_id", "entry_type", "role", "provider", "model", "root_session_id", "cwd", "adjustment"])
    .select(SPENT_COLUMNS)
    .select(sql<string>`dimensions::text`.as("dimensions"))
    .where("tenant_id", "=", tenantId)
    .where("position", ">=", from)
    .where("position", "<", to)
    .where(
      sql<boolean>`(position, session_id, seq) > (${position}::bigint, ${sessionId}::text, ${seq}::bigint)`,
    )
    .orderBy("position")
    .orderBy("session_id")
    .orderBy("seq")
    .limit(ROWS_PER_READ);
}

type ChangeRow = Awaited<ReturnType<ReturnType<typeof rowsAfter>["execute"]>>[number];

function changeOf(row: ChangeRow, cursor: string): UsageChange {
  return {
    cursor,
    tenantId: row.tenant_id,
    sessionId: row.session_id,
    id: row.usage_id,
    recordedAt: row.timestamp,
    spentAt: row.spent_at,
    ...(row.entry_id === null ? {} : { entryId: row.entry_id }),
    entryType: row.entry_type,
    role: row.role,
    provider: row.provider,
    model: row.model,
    rootSessionId: row.root_session_id,
    ...(row.cwd === null ? {} : { cwd: row.cwd }),
    dimensions: JSON.parse(row.dimensions),
    adjustment: row.adjustment,
    ...tokensOf(row),
    cost: costOf(row, (decimal) => decimal),
  };
}

function questionOf(scope: string) {
  return { changes: scope };
}

function changeCursor(scope: string, { from, to, tenantId, position, sessionId, seq }: Place): string {
  return cursorOf(questionOf(scope), [from, to, tenantId, position, sessionId, seq]);
}

/** @throws InvalidCursorError */
function placeOf(cursor: string, scope: string): Place {
  const key = readCursor(questionOf(scope), cursor, [0, 0, "", 0, "", 0]);
  const [from, to, tenantId, position, sessionId, seq] = key as [
    number,
    number,
    string,
    number,
    string,
    number,
  ];
  if (!isUuid(tenantId)) throw new InvalidCursorError("is not one that was returned");
  return { from, to, tenantId, position, sessionId, seq };
}
