import { type Kysely, type SelectQueryBuilder, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import { assertSessionId, assertText, TEXT_LIMITS } from "../contract/text.ts";
import { cursorOf, type PageKey, readCursor } from "./page-cursor.ts";
import type { DB } from "./schema.generated.ts";
import { metadataText, termsOf } from "./session-metadata.ts";
import {
  mainTip,
  type SessionSummary,
  SUMMARY_COLUMNS,
  type SummaryRow,
  summaryOf,
} from "./session-summary.ts";
import { read, type Tables } from "./transaction.ts";
import { endOfPrefix } from "./values.ts";

/** What a page is sorted by: time of creation, time of the last commit, or name. */
export type PageSort = "created" | "modified" | "name";

/** Which sessions of a tenant a page shows, and in what order. A session must meet all filters. */
export interface PageOptions {
  /**
   * Default `created`. By `name`, only the first 200 characters count, by code point; sessions without a name sort
   * after all others.
   */
  sort?: PageSort;
  /** Default `desc`, by name `asc`. Sessions that tie are sorted by id in the same direction. */
  order?: "asc" | "desc";
  /** Size of the page, from 1 to 1,000 sessions; default 50. */
  limit?: number;
  /** `next` of the page before; every other option but `limit` must be the same. Default: the first page. */
  cursor?: string;
  /** Only sessions with exactly this working directory; up to 4,096 bytes of UTF-8. */
  cwd?: string;
  /** Only sessions forked from this one, or created with it as their parent. */
  parentSessionId?: string;
  /** Only sessions whose name begins with this, case-sensitively; up to 4,096 bytes of UTF-8. */
  namePrefix?: string;
  /** Only sessions created at or after this time, in milliseconds since the epoch. */
  createdFrom?: number;
  /** Only sessions created before this time, in milliseconds since the epoch. */
  createdTo?: number;
  /** Only sessions last committed to at or after this time, in milliseconds since the epoch. */
  modifiedFrom?: number;
  /** Only sessions last committed to before this time, in milliseconds since the epoch. */
  modifiedTo?: number;
  /**
   * Only sessions whose metadata contains this, as PostgreSQL's `jsonb @>` defines it; up to 16,384 bytes of JSON,
   * nested at most 32 levels deep.
   */
  metadata?: ReadonlyJsonObject;
}

/** One page of a tenant's sessions. */
export interface SessionPage {
  /** In the order that was asked for. */
  sessions: SessionSummary[];
  /** Cursor of the next page; `undefined` on the last one. */
  next: string | undefined;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000;
const MINUTE_MS = 60_000;

/**
 * A range of the tenant's sessions, in one round trip, however many there are.
 *
 * @throws InvalidOptionError, InvalidTextError, InvalidCursorError
 */
export async function pageSessions(
  tables: Tables,
  tenantId: string,
  options: PageOptions,
  context: Context,
): Promise<SessionPage> {
  assertPageOptions(options);
  const { cursor, limit = DEFAULT_LIMIT, sort = "created", ...filters } = options;
  const order = options.order ?? (sort === "name" ? "asc" : "desc");
  const question = Object.fromEntries(
    Object.entries({ ...filters, sort, order }).sort(([left], [right]) => (left < right ? -1 : 1)),
  );
  const after = cursor === undefined ? undefined : readCursor(question, cursor, KEY_FORMS[sort]);
  const page = { filters, sort, order, after, limit } as const;
  const isWalk = Object.keys(filters).every((filter) => WALKS[sort].has(filter));
  const rows = await read(tables, context, (db) => pageStatement(db, tenantId, page), {
    plans: isWalk ? "generic" : "sorted",
  });
  const sessions = rows.slice(0, limit);
  const last = sessions.at(-1);
  return {
    sessions: sessions.map(summaryOf),
    next: rows.length > limit && last !== undefined ? cursorOf(question, keyOf(last, sort)) : undefined,
  };
}

/** What each order sorts by; a column of the row, or of the index. */
const KEY_COLUMNS = {
  created: ["created_at", "session_id"],
  modified: ["modified_minute", "modified_at", "session_id"],
  name: ["name_key", "session_id"],
} as const;

/** With these filters, a page is read off an index in its order; with others, what they let through may be sorted. */
const WALKS: Record<PageSort, ReadonlySet<string>> = {
  created: new Set(["cwd", "parentSessionId", "metadata", "createdFrom", "createdTo"]),
  modified: new Set(["modifiedFrom", "modifiedTo"]),
  name: new Set(["namePrefix"]),
};

const KEY_FORMS: Record<PageSort, PageKey> = { created: [0, ""], modified: [0, 0, ""], name: ["", ""] };

interface PageRow extends SummaryRow {
  modified_minute: number | null;
  name_key: string | null;
}

function keyOf(row: PageRow, sort: PageSort): PageKey {
  return KEY_COLUMNS[sort].map((column) => row[column] as string | number);
}

interface Page {
  filters: Omit<PageOptions, "cursor" | "limit" | "sort">;
  sort: PageSort;
  order: "asc" | "desc";
  after: PageKey | undefined;
  limit: number;
}

export function pageStatement(db: Kysely<DB>, tenantId: string, page: Page) {
  const { sort, order, limit } = page;
  return db
    .selectFrom(
      candidates(db, tenantId, page)
        .limit(limit + 1)
        .as("s"),
    )
    .select([...SUMMARY_COLUMNS, "modified_minute", "name_key"].map((column) => `s.${column}` as "s.name"))
    .select(mainTip(db, "s"))
    .$call((rows) =>
      KEY_COLUMNS[sort].reduce((sorted, column) => sorted.orderBy(`s.${column}` as "s.name", order), rows),
    )
    .$castTo<PageRow>();
}

/** The rows of one page, in their order; of metadata, by way of its rarest-looking term. */
function candidates(db: Kysely<DB>, tenantId: string, { filters, sort, order, after }: Page) {
  const { metadata = {} } = filters;
  const [term] = termsOf(metadata).sort();
  const columns = [...SUMMARY_COLUMNS, "tenant_id", "modified_minute", "name_key"] as const;
  const isByTerm = term !== undefined && sort === "created";
  const source =
    term === undefined
      ? db.selectFrom("sessions as s").where("s.tenant_id", "=", tenantId)
      : (db
          .selectFrom("session_terms as t")
          .where("t.tenant_id", "=", tenantId)
          .where("t.term", "=", sql<number>`${term}::bigint`)
          .innerJoinLateral(
            (eb) =>
              eb
                .selectFrom("sessions")
                .select([...columns, "cwd_key"])
                .where("sessions.tenant_id", "=", tenantId)
                .whereRef("sessions.session_id", "=", "t.session_id")
                .limit(1)
                .as("s"),
            (join) => join.onTrue(),
          ) as unknown as SelectQueryBuilder<DB & { s: DB["sessions"] }, "s", object>);
  const key = isByTerm
    ? (["t.created_at", "t.session_id"] as const)
    : KEY_COLUMNS[sort].map((column) => `s.${column}`);
  return withFilters(source as never, filters)
    .$if(after !== undefined, (rows) => rows.where(isBehind(key, order, after as PageKey)))
    .select(columns.map((column) => `s.${column}` as "s.name"))
    .$call((rows) => key.reduce((sorted, column) => sorted.orderBy(sql.ref(column), order), rows));
}

/** A comparison of rows, which the index in that order answers. */
function isBehind(columns: readonly string[], order: "asc" | "desc", after: PageKey) {
  const operator = sql.raw(order === "asc" ? ">" : "<");
  const row = sql.join(columns.map((column) => sql.ref(column)));
  const values = sql.join(
    after.map((value) => (typeof value === "number" ? sql`${value}::bigint` : sql`${value}::text`)),
  );
  return sql<boolean>`(${row}) ${operator} (${values})`;
}

type Sessions = SelectQueryBuilder<DB & { s: DB["sessions"] }, "s", object>;

function withFilters(sessions: Sessions, filters: Page["filters"]): Sessions {
  const { cwd, parentSessionId, namePrefix, metadata } = filters;
  const { createdFrom, createdTo, modifiedFrom, modifiedTo } = filters;
  const prefixEnd = namePrefix === undefined ? undefined : endOfPrefix(shortened(namePrefix));
  return sessions
    .$if(cwd !== undefined, (rows) =>
      rows.where("s.cwd_key", "=", shortened(cwd as string)).where("s.cwd", "=", cwd as string),
    )
    .$if(parentSessionId !== undefined, (rows) =>
      rows.where("s.parent_session_id", "=", parentSessionId as string),
    )
    .$if(namePrefix !== undefined, (rows) =>
      rows
        .where("s.name_key", ">=", shortened(namePrefix as string))
        .where(sql<boolean>`starts_with(s.name, ${namePrefix})`),
    )
    .$if(prefixEnd !== undefined, (rows) => rows.where("s.name_key", "<", prefixEnd as string))
    .$if(createdFrom !== undefined, (rows) => rows.where("s.created_at", ">=", createdFrom as number))
    .$if(createdTo !== undefined, (rows) => rows.where("s.created_at", "<", createdTo as number))
    .$if(modifiedFrom !== undefined, (rows) =>
      rows
        .where("s.modified_at", ">=", modifiedFrom as number)
        .where("s.modified_minute", ">=", minuteOf(modifiedFrom as number)),
    )
    .$if(modifiedTo !== undefined, (rows) =>
      rows
        .where("s.modified_at", "<", modifiedTo as number)
        .where("s.modified_minute", "<=", minuteOf(modifiedTo as number)),
    )
    .$if(metadata !== undefined, (rows) =>
      rows.where(sql<boolean>`s.metadata @> ${metadataText(metadata as ReadonlyJsonObject)}::jsonb`),
    );
}

/** As SQL divides. */
function minuteOf(milliseconds: number): number {
  return Math.trunc(milliseconds / MINUTE_MS);
}

/** As SQL's `left` counts: by code point. */
export function shortened(text: string): string {
  return Array.from(text).slice(0, 200).join("");
}

const OPTIONS: ReadonlySet<string> = new Set([
  "sort",
  "order",
  "limit",
  "cursor",
  "cwd",
  "parentSessionId",
  "namePrefix",
  "createdFrom",
  "createdTo",
  "modifiedFrom",
  "modifiedTo",
  "metadata",
] satisfies (keyof PageOptions)[]);

/** @throws InvalidOptionError, InvalidTextError */
function assertPageOptions(options: PageOptions): void {
  for (const [option, value] of Object.entries(options)) {
    if (!OPTIONS.has(option)) {
      throw new InvalidOptionError(option, JSON.stringify(value), "leave it out; a page has no such option");
    }
  }
  const { sort, order, limit, cursor, cwd, parentSessionId, namePrefix, metadata } = options;
  if (sort !== undefined && !Object.hasOwn(KEY_COLUMNS, sort)) {
    throw new InvalidOptionError("sort", sort, "pass created, modified or name");
  }
  if (order !== undefined && order !== "asc" && order !== "desc") {
    throw new InvalidOptionError("order", order, "pass asc or desc");
  }
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1 && limit <= MAX_LIMIT)) {
    throw new InvalidOptionError("limit", limit, `pass a whole number from 1 to ${MAX_LIMIT}`);
  }
  if (cursor !== undefined && typeof cursor !== "string") {
    throw new InvalidOptionError("cursor", typeof cursor, "pass `next` of the page before");
  }
  if (cwd !== undefined) assertText("working directory", cwd, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  if (parentSessionId !== undefined) assertSessionId("parent session id", parentSessionId);
  if (namePrefix !== undefined)
    assertText("name prefix", namePrefix, { maxBytes: TEXT_LIMITS.cwd, empty: true });
  for (const option of ["createdFrom", "createdTo", "modifiedFrom", "modifiedTo"] as const) {
    const time = options[option];
    if (time !== undefined && !Number.isSafeInteger(time)) {
      throw new InvalidOptionError(option, time, "pass whole milliseconds since the epoch");
    }
  }
  if (metadata !== undefined) metadataText(metadata);
}
