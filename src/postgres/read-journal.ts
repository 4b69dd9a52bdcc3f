import { type Kysely, sql } from "kysely";
import type { Context } from "../contract/context.ts";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession } from "./session-row.ts";
import { assertNotAborted, type Statement, type Transaction } from "./transaction.ts";

/** What is known of the file that a session was imported from. */
export interface StoredArchive {
  /** Version of the archive format: 1 to 4. */
  format: number;
  /** SHA-256 of the whole file, in hexadecimal. */
  sha256: string;
  /** Size of the file. */
  bytes: number;
  /** The `seq` of the first write that was added after the import. */
  firstFreeSeq: number;
}

/** `undefined` for a session that was not imported, or before there were journals. */
export async function readArchive(trx: Transaction, key: SessionKey): Promise<StoredArchive | undefined> {
  const [[row]] = await trx.send(
    trx.db
      .selectFrom("archives")
      .select(["format", "sha256", "bytes", "first_free_seq"])
      .where(isSession(key)),
  );
  if (row === undefined || row.first_free_seq === null) return undefined;
  const { first_free_seq: firstFreeSeq, ...archive } = row;
  return { ...archive, firstFreeSeq };
}

/** The blocks of a session's journal in their order. */
export async function* readJournal(
  trx: Transaction,
  key: SessionKey,
  context: Context,
): AsyncGenerator<Buffer> {
  for (let next = 0; ; ) {
    assertNotAborted(context);
    const [blocks] = await trx.send(blocksStatement(trx.db, key, next));
    for (const { hex } of blocks) yield Buffer.from(hex, "hex");
    if (blocks.length < BLOCKS_PER_READ) return;
    next += blocks.length;
  }
}

const BLOCKS_PER_READ = 4;

/** In digits, whatever form of output the server is set to. */
function blocksStatement(db: Kysely<DB>, key: SessionKey, from: number): Statement<{ hex: string }> {
  return db
    .selectFrom("archive_journal")
    .select(sql<string>`encode(content, 'hex')`.as("hex"))
    .where(isSession(key))
    .where("block", ">=", from)
    .orderBy("block")
    .limit(sql.lit(BLOCKS_PER_READ));
}

/** The payloads that a journal can refer to, those of messages and custom entries, in the order of their `seq`. */
export async function* readPayloads(
  trx: Transaction,
  key: SessionKey,
  { beforeSeq }: { beforeSeq: number },
  context: Context,
): AsyncGenerator<string> {
  for (let next = 0; ; ) {
    assertNotAborted(context);
    const [sizes] = await trx.send(sizesStatement(trx.db, key, { from: next, beforeSeq }));
    for (const { first, last } of groupsOf(sizes)) {
      const [rows] = await trx.send(payloadsStatement(trx.db, key, first, last));
      for (const { payload } of rows) yield payload;
    }
    const last = sizes.at(-1);
    if (last === undefined || sizes.length < SIZES_PER_READ) return;
    next = last.seq + 1;
  }
}

const SIZES_PER_READ = 1_000;
/** More are read at once only where a single payload takes more. */
const GROUP_BYTES = 1024 * 1024;

interface Size {
  seq: number;
  payload_bytes: number;
}

function* groupsOf(sizes: readonly Size[]): Generator<{ first: number; last: number }> {
  let group: { first: number; last: number } | undefined;
  let bytes = 0;
  for (const { seq, payload_bytes } of sizes) {
    if (group !== undefined && bytes + payload_bytes > GROUP_BYTES) {
      yield group;
      group = undefined;
      bytes = 0;
    }
    group = { first: group?.first ?? seq, last: seq };
    bytes += payload_bytes;
  }
  if (group !== undefined) yield group;
}

function sizesStatement(
  db: Kysely<DB>,
  key: SessionKey,
  { from, beforeSeq }: { from: number; beforeSeq: number },
): Statement<Size> {
  return lendingEntries(db, key)
    .select(["seq", "payload_bytes"])
    .where("seq", ">=", from)
    .where("seq", "<", beforeSeq)
    .orderBy("seq")
    .limit(sql.lit(SIZES_PER_READ));
}

function payloadsStatement(db: Kysely<DB>, key: SessionKey, first: number, last: number) {
  return lendingEntries(db, key)
    .select(sql<string>`payload::text`.as("payload"))
    .where("seq", ">=", first)
    .where("seq", "<=", last)
    .orderBy("seq");
}

function lendingEntries(db: Kysely<DB>, key: SessionKey) {
  return db.selectFrom("entries").where(isSession(key)).where("type", "in", ["message", "custom"]);
}
