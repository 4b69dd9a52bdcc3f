import { type Kysely, sql } from "kysely";
import { sessionName } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import { storableText } from "../contract/text.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { termsOf } from "./session-metadata.ts";
import { isSession, STATS_COLUMNS, statsColumns } from "./session-row.ts";
import { assertNotAborted, type Transaction } from "./transaction.ts";
import type { VerifyCheck } from "./verify.ts";
import {
  firstPreviewStatement,
  idsStatement,
  payloadsStatement,
  seqsStatement,
  treeStatement,
} from "./verify-entries.ts";
import { LEDGER_ROWS_PER_READ, LedgerSum, ledgerStatement } from "./verify-ledger.ts";
import { countLostTips, TIPS_PER_READ, tipsStatement } from "./verify-tips.ts";

/** What one check found in one session. */
export interface Fault {
  check: VerifyCheck;
  count: number;
  what: string;
}

/** Columns of a session's row that follow from other rows. */
export interface Projection extends ReturnType<typeof statsColumns> {
  name: string | null;
  first_message: string | null;
  stored_bytes: number;
  reserved_bytes: number;
}

export interface Examination {
  readonly faults: readonly Fault[];
  /** The columns of the session's row that are wrong, as they should be. */
  readonly corrected: Partial<Projection>;
  /** What the session is found by, as it should be. */
  readonly terms: readonly string[];
}

/** Looks at all of a session in one transaction, and sends for numbers only. `undefined`: there is no such session. */
export async function examineSession(
  trx: Transaction,
  key: SessionKey,
  context: Context,
): Promise<Examination | undefined> {
  const { db } = trx;
  const [[row], [payloads], [preview], [tree], [seqs], [ids], [state], tips, ledger] = await trx.send(
    rowStatement(db, key),
    payloadsStatement(db, key),
    firstPreviewStatement(db, key),
    treeStatement(db, key),
    seqsStatement(db, key),
    idsStatement(db, key),
    stateBytesStatement(db, key),
    tipsStatement(db, key, undefined),
    ledgerStatement(db, key, 0),
  );
  if (row === undefined || !payloads || !tree || !seqs || !ids || !state) return undefined;

  const faults = new Faults();
  faults.add("seq_shared", seqs.shared, (n) => `${n(" number")} of several writes`, seqs.first_shared);
  faults.add(
    "seq_ahead",
    seqs.ahead,
    (n) => `${n(" number")} beyond the session's next one`,
    seqs.first_ahead,
  );
  faults.add(
    "id_shared",
    ids.shared,
    (n) => `${n(" id")} of both an entry and a usage row`,
    ids.first_shared,
  );
  faults.add("parent_missing", tree.orphans, (n) => `${n(" entry")} without the parent`, tree.first_orphan);
  faults.add("parent_later", tree.early, (n) => `${n(" entry")} before the parent`, tree.first_early);
  const lostTips = await countAllLostTips(trx, key, tips, context);
  faults.add("branch_tip", lostTips, (n) => `${n(" branch")} whose tip is no entry`);
  const sum = await sumLedger(trx, key, ledger, context);
  faults.add(
    "usage_columns",
    sum.differing,
    (n) => `${n(" usage row")} whose columns differ from its usage`,
    sum.firstDiffering,
  );
  faults.add("entry_run", tree.misplaced, (n) => `${n(" entry")} in a wrong run`, tree.first_misplaced);
  faults.add("entry_bytes", payloads.wrong, (n) => `${n(" entry")} of another size`, payloads.first_wrong);

  const terms = termsOf(JSON.parse(row.metadata_text) as ReadonlyJsonObject);
  const stored = new Set(row.terms.split(" ").filter((term) => term !== ""));
  const kept = terms.filter((term) => stored.has(term)).length;
  const differing = terms.length + stored.size - 2 * kept;
  faults.add("metadata_terms", differing, (n) => `${n(" term")} missing, or not of the metadata`);

  const corrected = faults.compare(row, {
    ...statsColumns({ messageCount: payloads.messages, usage: sum.usage }),
    name: nameIn(row.name_value),
    first_message: preview?.preview ?? null,
    stored_bytes: payloads.bytes + state.bytes,
    reserved_bytes: Math.max(0, row.reserved_bytes),
  });
  return { faults: faults.found, corrected, terms };
}

class Faults {
  readonly found: Fault[] = [];

  /** `what` is given a way to say how many; `firstSeq` is where to look. */
  add(
    check: VerifyCheck,
    count: number,
    what: (counted: (noun: string) => string) => string,
    firstSeq?: number | null,
  ): void {
    if (count === 0) return;
    const where = firstSeq == null ? "" : `, ${count === 1 ? "seq" : "first at seq"} ${firstSeq}`;
    this.found.push({ check, count, what: what((noun) => counted(count, noun)) + where });
  }

  /** Compares the session's row with what other rows make of it. Never tells a text. */
  compare(row: Projection, right: Projection): Partial<Projection> {
    const columns = Object.keys(right) as (keyof Projection)[];
    const wrong = columns.filter((column) => !Object.is(row[column], right[column]));
    const numbers = (column: "message_count" | "stored_bytes" | "reserved_bytes") =>
      `${column} is ${row[column]} and should be ${right[column]}`;
    for (const column of ["message_count", "stored_bytes", "reserved_bytes"] as const) {
      if (wrong.includes(column)) this.add(column, 1, () => numbers(column));
    }
    const totals = wrong.filter((column) => column.startsWith("total_"));
    this.add("usage_totals", totals.length, () => `not the sum of the ledger: ${totals.join(", ")}`);
    if (wrong.includes("name")) this.add("session_name", 1, () => "name is not the session's name");
    if (wrong.includes("first_message"))
      this.add("first_message", 1, () => "first_message is not the start of the first user message");
    return Object.fromEntries(wrong.map((column) => [column, right[column]]));
  }
}

function counted(count: number, noun: string): string {
  const plural = noun.replace(/(ch)$/, "$1e").replace(/y$/, "ie");
  return count === 1 ? `1${noun}` : `${count}${plural}s`;
}

function rowStatement(db: Kysely<DB>, key: SessionKey) {
  return db
    .selectFrom("sessions as s")
    .leftJoin("scalar_values as n", (join) =>
      join
        .on("n.tenant_id", "=", key.tenantId)
        .on("n.session_id", "=", key.sessionId)
        .on("n.namespace", "=", sessionName.namespace)
        .on("n.key", "=", sessionName.key),
    )
    .select(STATS_COLUMNS.map((column) => `s.${column}` as const))
    .select(["s.name", "s.first_message", "s.stored_bytes", "s.reserved_bytes"])
    .select(
      // Only strings are names; nothing in it is unescaped here.
      sql<string | null>`case when json_typeof(n.value) = 'string' then n.value::text end`.as("name_value"),
    )
    .select(sql<string>`s.metadata::text`.as("metadata_text"))
    .select((eb) =>
      sql<string>`array_to_string(array(${eb
        .selectFrom("session_terms as t")
        .select(sql<string>`t.term::text`.as("term"))
        .where("t.tenant_id", "=", key.tenantId)
        .where("t.session_id", "=", key.sessionId)
        .whereRef("t.created_at", "=", "s.created_at")}), ' ')`.as("terms"),
    )
    .where("s.tenant_id", "=", key.tenantId)
    .where("s.session_id", "=", key.sessionId);
}

function nameIn(text: string | null): string | null {
  return text === null ? null : storableText(JSON.parse(text) as string);
}

/** What the ledger, the values and the lists take. */
function stateBytesStatement(db: Kysely<DB>, key: SessionKey) {
  const bytesOf = (table: "scalar_values" | "list_values") =>
    db
      // Both have these columns.
      .selectFrom(table as "scalar_values")
      .where(isSession(key))
      .select(sql<number>`coalesce(sum(octet_length(value::text)), 0)`.as("bytes"));
  const ledger = db
    .selectFrom("usage_ledger")
    .where(isSession(key))
    .select(
      sql<number>`coalesce(sum(octet_length(usage::text) + coalesce(octet_length(details::text), 0)), 0)`.as(
        "bytes",
      ),
    );
  return db
    .selectFrom(sql<{ one: number }>`(select 1)`.as<"outcome">(sql`outcome(one)`))
    .select(
      sql<number>`((${ledger}) + (${bytesOf("scalar_values")}) + (${bytesOf("list_values")}))::bigint`.as(
        "bytes",
      ),
    );
}

type Tips = Awaited<ReturnType<ReturnType<typeof tipsStatement>["execute"]>>;
type Ledger = Parameters<LedgerSum["add"]>[0];

async function countAllLostTips(
  trx: Transaction,
  key: SessionKey,
  first: Tips,
  context: Context,
): Promise<number> {
  let lost = await countLostTips(trx, key, first);
  for (let page = first; page.length === TIPS_PER_READ; ) {
    assertNotAborted(context);
    [page] = await trx.send(tipsStatement(trx.db, key, page.at(-1)?.key));
    lost += await countLostTips(trx, key, page);
  }
  return lost;
}

async function sumLedger(
  trx: Transaction,
  key: SessionKey,
  first: Ledger,
  context: Context,
): Promise<LedgerSum> {
  const sum = new LedgerSum();
  sum.add(first);
  for (let page = first; page.length === LEDGER_ROWS_PER_READ; ) {
    assertNotAborted(context);
    [page] = await trx.send(ledgerStatement(trx.db, key, sum.last));
    sum.add(page);
  }
  return sum;
}
