import { type Compilable, type Kysely, sql } from "kysely";
import type { SessionStats } from "../contract/usage.ts";
import type { Addition } from "./add-once.ts";
import { firstPreview, newName } from "./batch-summary.ts";
import { TenantLimitError } from "./errors.ts";
import { type ImportRows, insertJournal, insertRows } from "./import-rows.ts";
import type { ArchiveRecord, ImportChunk, ImportedWrite, ImportStream } from "./import-session.ts";
import { JournalBlocks } from "./journal-blocks.ts";
import { Runs } from "./runs.ts";
import type { DB } from "./schema.generated.ts";
import { newHead, type SessionHead } from "./session-head.ts";
import { keyColumns, type SessionKey } from "./session-key.ts";
import { isSession, statsColumns } from "./session-row.ts";
import { assertWritable, chargeSession } from "./tenant-limits.ts";
import type { Tables, Transaction } from "./transaction.ts";
import { addStats, batchWrites, type WriteBatch } from "./write-batch.ts";

/**
 * Fills a session that the transaction has just added. The session's own row is written once, at the end: what it
 * says about the others is added up here.
 */
export class ImportWriter {
  readonly #tables: Tables;
  readonly #key: SessionKey;
  readonly #trx: Transaction;
  readonly #commitId: string;
  readonly #runs = new Runs();
  readonly #journal = new JournalBlocks();
  /** The chunk that the server works on. */
  #sent: Promise<void> = Promise.resolve();
  #stats: SessionStats = newHead().stats;
  #modifiedAt: number;
  /** Of the entries and usage rows, which are never taken away again. */
  #bytes = 0;
  #name: string | null = null;
  #firstMessage: string | null = null;

  constructor(tables: Tables, trx: Transaction, { key, commitId, createdAt }: Addition) {
    this.#tables = tables;
    this.#trx = trx;
    this.#key = key;
    this.#commitId = commitId;
    this.#modifiedAt = createdAt;
  }

  /** Reads the stream to its end, a chunk ahead of the server, and commits. */
  async run(stream: ImportStream): Promise<SessionHead> {
    try {
      for await (const chunk of stream.chunks) await this.#write(chunk);
    } catch (error) {
      await this.#sent.catch(() => {}); // the transaction ends after its last statement
      throw error;
    }
    const end = stream.finish();
    await this.#finish(end);
    return { nextSeq: end.nextSeq, stats: this.#stats, tips: new Map() };
  }

  async #write({ writes, journal }: ImportChunk): Promise<void> {
    this.#modifiedAt = latestTimestamp(writes, this.#modifiedAt);
    const batch = batchWrites(writes, { timestamp: this.#modifiedAt, firstIndex: 0 });
    const runs: number[] = [];
    for (const write of writes) if (write.kind === "entry") runs.push(this.#runs.place(write));
    this.#addUp(writes, batch);
    await this.#send({ batch, runs, journal: this.#journal.add(journal) });
  }

  #addUp(writes: readonly ImportedWrite[], batch: WriteBatch): void {
    this.#stats = addStats(this.#stats, writes);
    this.#bytes += batch.bytes - bytesOf(batch.setValues.value) - bytesOf(batch.appendLists.value);
    const name = newName(batch);
    if (name !== undefined) this.#name = name;
    this.#firstMessage ??= firstPreview(batch);
  }

  /** Returns as soon as the server has taken the chunk before. */
  async #send(rows: ImportRows): Promise<void> {
    const statements = insertRows(this.#tables, this.#key, rows);
    await this.#sent;
    this.#sent = this.#store(statements, rows.batch.largestEntryBytes);
    this.#sent.catch(() => {}); // whoever waits for it next hears of it
  }

  async #store(statements: readonly Compilable<unknown>[], largestEntryBytes: number): Promise<void> {
    const sent = await this.#trx.send<[unknown, EntryLimit, ...unknown[]]>(
      assertWritable(this.#tables),
      entryLimit(this.#trx.db, this.#key),
      ...statements,
    );
    const maximum = sent[1][0]?.max_entry_bytes ?? Number.POSITIVE_INFINITY;
    if (largestEntryBytes > maximum) {
      throw new TenantLimitError(this.#tables.tenant?.slug ?? "", "entryBytes", maximum);
    }
  }

  async #finish({ nextSeq, archive }: { nextSeq: number; archive: ArchiveRecord }): Promise<void> {
    const journal = this.#journal.end();
    await this.#sent;
    await this.#trx.commitWith(
      ...(journal.length === 0 ? [] : [insertJournal(this.#trx.db, this.#key, journal)]),
      this.#sessionRow(nextSeq),
      this.#archiveRow(nextSeq, archive),
      chargeSession(this.#tables, this.#key),
    );
  }

  #sessionRow(nextSeq: number): Compilable<unknown> {
    const { db } = this.#trx;
    return db
      .updateTable("sessions")
      .set({
        last_commit: this.#commitId,
        next_seq: nextSeq,
        modified_at: this.#modifiedAt,
        ...statsColumns(this.#stats),
        name: this.#name,
        first_message: this.#firstMessage,
        // Values were overwritten on the way; what is left of them is counted.
        stored_bytes: sql<number>`${this.#bytes}::bigint
          + (${storedBytes(db, "scalar_values", this.#key)}) + (${storedBytes(db, "list_values", this.#key)})`,
      })
      .where(isSession(this.#key));
  }

  #archiveRow(nextSeq: number, archive: ArchiveRecord): Compilable<unknown> {
    return this.#trx.db
      .insertInto("archives")
      .values({ ...keyColumns(this.#key), ...archive, first_free_seq: nextSeq, imported_at: Date.now() });
  }
}

interface EntryLimit {
  max_entry_bytes: number | null;
}

function entryLimit(db: Kysely<DB>, { tenantId }: SessionKey): Compilable<EntryLimit> {
  return db.selectFrom("tenants").select("max_entry_bytes").where("tenant_id", "=", tenantId);
}

function storedBytes(db: Kysely<DB>, table: "scalar_values" | "list_values", key: SessionKey) {
  return db
    .selectFrom(table)
    .select(sql<number>`coalesce(sum(octet_length(value::text)), 0)`.as("bytes"))
    .where(isSession(key));
}

function bytesOf(texts: readonly unknown[]): number {
  return texts.reduce<number>((sum, text) => sum + Buffer.byteLength(text as string), 0);
}

function latestTimestamp(writes: readonly ImportedWrite[], atLeast: number): number {
  return writes.reduce(
    (latest, write) => (write.kind === "entry" ? Math.max(latest, write.timestamp) : latest),
    atLeast,
  );
}
