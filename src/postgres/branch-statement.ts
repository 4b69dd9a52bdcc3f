import {
  type Compilable,
  type ExpressionBuilder,
  expressionBuilder,
  type Kysely,
  type QueryCreator,
  type RawBuilder,
  sql,
} from "kysely";
import { branchTips } from "../contract/address.ts";
import type { StorageBranchScan, TipScan } from "../contract/storage.ts";
import { type PathRun, withPath } from "./branch-path.ts";
import { scanLimit, seqBound } from "./entries.ts";
import { STRUCTURE_COLUMNS } from "./entry-columns.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { sessionSlots, slotsOf, Templates } from "./template.ts";

/** A scan of the path from an entry, or from the tip of a branch. */
export type PathScan = StorageBranchScan | (TipScan & { readonly branch: string });

/**
 * Reads a path, or a part of it. One row for each entry; if there is none, one with nothing but `known` and, when
 * it begins at a branch, `tip`.
 *
 * @throws InvalidOptionError
 */
export function branchStatement(
  db: Kysely<DB>,
  key: SessionKey,
  query: PathScan,
  { withPayload }: { withPayload: boolean },
): Compilable<PathRow> {
  const scan = scanOf(query, withPayload);
  const form = formOf(scan);
  const build = () => buildStatement(db, form) as Compilable<PathRow>;
  return TEMPLATES.fill(db, JSON.stringify(form), build, { key, scan });
}

/** What is read, checked. Either `start` or `branch` is defined. */
interface Scan {
  start: string | undefined;
  branch: string | undefined;
  stopAtId: string | undefined;
  stopAtType: string | undefined;
  type: string | undefined;
  customType: string | undefined;
  /** Exclusive. */
  cursor: number | undefined;
  limit: number | undefined;
  isNewestFirst: boolean;
  withPayload: boolean;
}

function scanOf(query: PathScan, withPayload: boolean): Scan {
  const { stopAtId, stopAtType, type, customType, cursor, order } = query;
  return {
    start: "start" in query ? query.start : undefined,
    branch: "branch" in query ? query.branch : undefined,
    ...{ stopAtId, stopAtType, type, customType, withPayload },
    cursor: cursor && seqBound("cursor", cursor.seq),
    limit: scanLimit(query.limit),
    isNewestFirst: order !== "oldestFirst",
  };
}

interface Input {
  readonly key: SessionKey;
  readonly scan: Scan;
}

export type PathRow = ReturnType<typeof buildStatement> extends Compilable<infer TRow> ? TRow : never;

const TEMPLATES = new Templates<Input, PathRow>();
const slot = slotsOf<Input>();
const KEY = sessionSlots(slot, ({ key }) => key);

/** The scan with slots for what is a parameter. */
function formOf(scan: Scan): Scan {
  const parameter = <TName extends keyof Scan>(name: TName): Scan[TName] =>
    scan[name] === undefined ? scan[name] : slot((input) => input.scan[name]);
  return {
    ...scan,
    start: parameter("start"),
    branch: parameter("branch"),
    stopAtId: parameter("stopAtId"),
    stopAtType: isIndexed(scan.stopAtType) ? scan.stopAtType : parameter("stopAtType"),
    type: isIndexed(scan.type) ? scan.type : parameter("type"),
    customType: parameter("customType"),
    cursor: parameter("cursor"),
    limit: parameter("limit"),
  };
}

/**
 * Walks from run to run: a path to the root is, of each run that it passes, everything up to the entry where
 * it left it. `seq` falls towards the root, so stop and cursor are bounds of `seq`.
 *
 * Each run is read by a lateral query in the order of its index, one run after the other: PostgreSQL joins it to the
 * runs only by a nested loop, which keeps their order and ends when the page is full. So nothing is sorted, and
 * newest first, the walk itself ends with the page or at the stop.
 */
function buildStatement(db: Kysely<DB>, scan: Scan) {
  const { branch, type, customType, cursor, limit, isNewestFirst, withPayload } = scan;
  const columns = STRUCTURE_COLUMNS.map((column) => `node.${column}` as const);
  return (
    withRuns(db, scan)
      .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
      .leftJoin(
        (eb) =>
          eb
            .selectFrom("runs as part")
            .innerJoinLateral(
              () =>
                entriesOf(scan)
                  .select(columns)
                  .$if(withPayload, (found) => found.select("node.payload"))
                  .$if(hasStop(scan), (found) => found.where(isNewestFirst ? DOWN_TO_STOP : UP_TO_STOP))
                  .$if(cursor !== undefined, (found) =>
                    found.where("node.seq", isNewestFirst ? "<" : ">", cursor as number),
                  )
                  .$if(type !== undefined, (found) => found.where(isOfType(type as string)))
                  .$if(customType !== undefined, (found) =>
                    found.where("node.custom_type", "=", customType as string),
                  )
                  .$if(limit !== undefined, (found) => found.limit(limit as number))
                  .as("node"),
              (join) => join.onTrue(),
            )
            .select(columns)
            .$if(withPayload, (found) => found.select("node.payload"))
            .$if(limit !== undefined, (found) => found.limit(limit as number))
            .as("found"),
        (join) => join.onTrue(),
      )
      .select(sql<boolean>`exists (select from path)`.as("known"))
      .$if(branch !== undefined, (rows) => rows.select(tipOf(db, branch as string, TIP_TEXT).as("tip")))
      .select(STRUCTURE_COLUMNS.map((column) => `found.${column}` as const))
      // Cast outside of the limit, so that only what is returned is read from storage.
      .$if(withPayload, (rows) => rows.select(sql<string>`found.payload::text`.as("payload")))
  );
}

interface Stop {
  /** Where the scan ends; beyond all entries if nothing stops it. */
  seq: number;
  /** Of the run that it is in; null if nothing stops the scan. */
  depth: number | null;
}

type PathTables = DB & { path: PathRun };
type ScanTables = PathTables & { stop: Stop; runs: Pick<PathRun, "run" | "upto"> };

function hasStop({ stopAtId, stopAtType }: Scan): boolean {
  return stopAtId !== undefined || stopAtType !== undefined;
}

/** Adds the CTEs `path`, `stop` if there may be one, and `runs`: what is scanned of the path, in the order of the scan. */
function withRuns(db: Kysely<DB>, scan: Scan): QueryCreator<ScanTables> {
  const start = scan.branch === undefined ? (scan.start as string) : tipOf(db, scan.branch, TIP_ID);
  const path = withPath(db, KEY, start) as unknown as QueryCreator<PathTables>;
  const withStops = hasStop(scan) ? path.with("stop", (cte) => stopOf(cte, scan)) : path;
  return (withStops as QueryCreator<ScanTables>).with("runs", (cte) =>
    cte
      .selectFrom((eb) => inOrder(eb, scan))
      .select(["part.run", "part.upto"])
      .$if(hasStop(scan) && scan.isNewestFirst, (runs) => runs.limit(sql<number>`(select depth from stop)`)),
  );
}

/** What a branch ends with; null if there is no such branch. */
function tipOf(db: Kysely<DB>, branch: string, form: RawBuilder<string | null>) {
  const tip = db
    .selectFrom("scalar_values as tip")
    .select(form.as("tip"))
    .where("tip.tenant_id", "=", KEY.tenantId)
    .where("tip.session_id", "=", KEY.sessionId)
    .where("tip.namespace", "=", branchTips().namespace)
    .where("tip.key", "=", branch)
    .limit(1);
  return sql<string | null>`(${tip})`;
}

const TIP_TEXT = sql<string | null>`tip.value::text`;

/** Null where its JSON has an escape: some of what they stand for is no text. */
const TIP_ID = sql<string | null>`case when strpos(tip.value::text, chr(92)) = 0 then tip.value #>> '{}' end`;

/** The path in the order of the scan; it is made from its newest run on. */
function inOrder(eb: ExpressionBuilder<PathTables, never>, { isNewestFirst }: Scan) {
  return eb
    .selectFrom("path")
    .select(["path.run", "path.upto", "path.depth"])
    .$if(!isNewestFirst, (path) => path.orderBy("path.upto"))
    .as("part");
}

/** The first on the way, by type or by id. One row. */
function stopOf(cte: QueryCreator<PathTables>, scan: Scan) {
  const { stopAtId, stopAtType, isNewestFirst } = scan;
  return cte
    .selectFrom((eb) => {
      const byType = () => firstOfType(eb, scan, stopAtType as string);
      const byId = () => placeOf(eb, stopAtId as string);
      if (stopAtId === undefined) return byType().as("found");
      if (stopAtType === undefined) return byId().as("found");
      return byId()
        .unionAll((both) => both.parens(byType()))
        .as("found");
    })
    .select(
      isNewestFirst
        ? sql<number>`coalesce(max(found.seq), 0)`.as("seq")
        : sql<number>`coalesce(min(found.seq), ${sql.lit(Number.MAX_SAFE_INTEGER)})`.as("seq"),
    )
    .select((eb) => eb.fn.min("found.depth").as("depth"));
}

/** Run by run, until one has an entry of the type. */
function firstOfType(eb: ExpressionBuilder<PathTables, never>, scan: Scan, type: string) {
  return eb
    .selectFrom((path) => inOrder(path, scan))
    .innerJoinLateral(
      () => entriesOf(scan).select("node.seq").where(isOfType(type)).limit(1).as("node"),
      (join) => join.onTrue(),
    )
    .select(["node.seq", "part.depth"])
    .limit(1);
}

/** Where an entry is on the path, if it is. */
function placeOf(eb: ExpressionBuilder<PathTables, never>, id: string) {
  return eb
    .selectFrom((named) =>
      named
        .selectFrom("entries")
        .select(["run", "seq"])
        .where("tenant_id", "=", KEY.tenantId)
        .where("session_id", "=", KEY.sessionId)
        .where(isExactly("entry_id", id))
        .orderBy("entry_id")
        .limit(1)
        .as("named"),
    )
    .innerJoinLateral(
      (walk) =>
        walk
          .selectFrom("path")
          .select("path.depth")
          .whereRef("path.run", "=", "named.run")
          .whereRef("path.upto", ">=", "named.seq")
          .limit(1)
          .as("place"),
      (join) => join.onTrue(),
    )
    .select(["named.seq", "place.depth"]);
}

/** The entries of one `part` of the path, in the order of the scan. */
function entriesOf({ isNewestFirst }: Scan) {
  return expressionBuilder<DB, never>()
    .selectFrom("entries as node")
    .where("node.tenant_id", "=", KEY.tenantId)
    .where("node.session_id", "=", KEY.sessionId)
    .where("node.run", "=", sql.ref<number>("part.run"))
    .where("node.seq", "<=", sql.ref<number>("part.upto"))
    .orderBy("node.seq", isNewestFirst ? "desc" : "asc");
}

const INDEXED_TYPES: ReadonlySet<string> = new Set(["compaction", "branch_summary", "custom"]);

/**
 * Types that have an index are part of the text, so that the planner can prove that it serves. Messages have none:
 * there is one nearby, and those in between are read anyway.
 */
function isOfType(type: string) {
  return sql<boolean>`node.type = ${isIndexed(type) ? sql.lit(type) : type}`;
}

function isIndexed(type: string | undefined): type is string {
  return type !== undefined && INDEXED_TYPES.has(type);
}

// Not coalesced here: row-level security lets only what cannot leak into an index condition, and that is not on its list.
const UP_TO_STOP = sql<boolean>`node.seq <= (select seq from stop)`;
const DOWN_TO_STOP = sql<boolean>`node.seq >= (select seq from stop)`;
