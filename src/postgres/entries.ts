import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import type { EntryScan } from "../contract/storage.ts";
import { assertCustomType, assertEntryId, assertText, TEXT_LIMITS } from "../contract/text.ts";
import { entryOf, STRUCTURE_COLUMNS, type StructureRow } from "./entry-columns.ts";
import { isExactly } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { sessionSlots, slotsOf, Templates } from "./template.ts";
import { read, type Tables } from "./transaction.ts";

const PAYLOAD = sql<string>`payload::text`.as("payload");

/** @throws InvalidTextError, InvalidOptionError */
export async function getEntries(
  tables: Tables,
  key: SessionKey,
  ids: readonly string[],
  context: Context,
): Promise<Map<string, Entry>> {
  if (!Array.isArray(ids)) throw new InvalidOptionError("ids", typeof ids, "pass an array of entry ids");
  for (const id of ids) assertEntryId("entry id", id);
  const rows = await read(tables, context, (db) =>
    FOUND.fill(db, "", () => entriesByIds(db), { ...key, ids }),
  );
  const found = new Map(rows.map((row) => [row.entry_id, entryOf(row)]));
  // In the order that was asked for.
  return new Map(ids.flatMap((id) => (found.has(id) ? [[id, found.get(id) as Entry]] : [])));
}

type IdsInSession = SessionKey & { readonly ids: readonly string[] };

const FOUND = new Templates<IdsInSession, StructureRow & { payload: string }>();
const slot = slotsOf<IdsInSession>();

function entriesByIds(db: Kysely<DB>) {
  const key = sessionSlots(slot, (input) => input);
  const ids = slot((input) => input.ids);
  return (
    db
      .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<"wanted">(sql`wanted(id)`))
      // A probe per id; a plain join may read the whole session.
      .innerJoinLateral(
        (eb) =>
          eb
            .selectFrom("entries")
            .select([...STRUCTURE_COLUMNS, "payload"])
            .where(isSession(key))
            .where(isExactly("entry_id", sql.ref("wanted.id")))
            .orderBy("entry_id")
            .limit(1)
            .as("found"),
        (join) => join.onTrue(),
      )
      .select(STRUCTURE_COLUMNS.map((column) => `found.${column}` as const))
      .select(sql<string>`found.payload::text`.as("payload"))
  );
}

/** @throws InvalidTextError, InvalidOptionError */
export async function scanEntries(
  tables: Tables,
  key: SessionKey,
  query: EntryScan,
  context: Context,
): Promise<Entry[]> {
  assertFilter(query);
  const limit = scanLimit(query.limit);
  const rows = await read(tables, context, (db) =>
    db
      .selectFrom("entries")
      .select([...STRUCTURE_COLUMNS, PAYLOAD])
      .where(isSession(key))
      .$if(query.type !== undefined, (scan) => scan.where("type", "=", query.type as string))
      .$if(query.customType !== undefined, (scan) =>
        scan.where("custom_type", "=", query.customType as string),
      )
      .$if(query.fromSeq !== undefined, (scan) => scan.where("seq", ">=", seqBound("fromSeq", query.fromSeq)))
      .$if(query.toSeq !== undefined, (scan) => scan.where("seq", "<=", seqBound("toSeq", query.toSeq)))
      .orderBy("seq", query.order === "desc" ? "desc" : "asc")
      .$if(limit !== undefined, (scan) => scan.limit(limit as number)),
  );
  return rows.map(entryOf);
}

/** @throws InvalidTextError */
export function assertFilter({ type, customType }: { type?: string; customType?: string }): void {
  if (type !== undefined) assertText("entry type", type, { maxBytes: TEXT_LIMITS.customType, empty: true });
  if (customType !== undefined) assertCustomType(customType);
}

/** A limit below 1 finds nothing; `undefined` is no limit. */
export function scanLimit(limit: number | undefined): number | undefined {
  if (limit === undefined || limit === Number.POSITIVE_INFINITY) return undefined;
  return Math.min(Math.max(0, Math.trunc(limit) || 0), Number.MAX_SAFE_INTEGER);
}

/**
 * A bound of `seq`; one beyond the safe integers means the last of them.
 *
 * @throws InvalidOptionError when it is not a whole number
 */
export function seqBound(option: string, bound: number | undefined): number {
  const clamped = Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, bound ?? Number.NaN));
  if (!Number.isSafeInteger(clamped))
    throw new InvalidOptionError(option, bound, "pass a `seq`, a whole number");
  return clamped;
}
