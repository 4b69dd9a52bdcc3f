import { type Kysely, sql } from "kysely";
import { branchTips } from "../contract/address.ts";
import { isStorable, TEXT_LIMITS } from "../contract/text.ts";
import { isExactly, ONE_PROBE } from "./probe.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import type { Transaction } from "./transaction.ts";

export const TIPS_PER_READ = 1_000;

/** No id is longer, however it is escaped: JSON needs at most six bytes for one. */
const MAX_TIP_BYTES = 6 * TEXT_LIMITS.id + 2;

/** The next branches after a name. A tip that is too long to be an id comes without its text. */
export function tipsStatement(db: Kysely<DB>, key: SessionKey, after: string | undefined) {
  return db
    .selectFrom("scalar_values")
    .select("key")
    .select(
      sql<
        string | null
      >`case when octet_length(value::text) <= ${sql.lit(MAX_TIP_BYTES)} then value::text end`.as("value"),
    )
    .where(isSession(key))
    .where("namespace", "=", branchTips().namespace)
    .$if(after !== undefined, (tips) => tips.where("key", ">", after as string))
    .orderBy("key")
    .limit(TIPS_PER_READ);
}

/**
 * How many of these branches have a tip that is neither an entry nor `null`. A tip may hold any JSON value, so it is
 * read here, not in the server, which cannot read every JSON text.
 */
export async function countLostTips(
  trx: Transaction,
  key: SessionKey,
  tips: readonly { value: string | null }[],
): Promise<number> {
  const set = tips.map(({ value }): unknown => (value === null ? undefined : JSON.parse(value)));
  const named = set.filter(isStorable);
  const strange = set.filter((tip) => tip !== null && !isStorable(tip)).length;
  if (named.length === 0) return strange;
  const [[lost]] = await trx.send(missingStatement(trx.db, key, named));
  return strange + (lost?.count ?? 0);
}

function missingStatement(db: Kysely<DB>, key: SessionKey, ids: readonly string[]) {
  return db
    .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<"tip">(sql`tip(id)`))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom("entries")
            .select("entry_id")
            .where(isSession(key))
            .where(isExactly("entry_id", sql.ref("tip.id")))
            .orderBy("entry_id")
            .limit(1)
            .offset(ONE_PROBE),
        ),
      ),
    )
    .select(sql<number>`count(*)`.as("count"));
}
