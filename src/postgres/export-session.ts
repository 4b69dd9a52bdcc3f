import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import { SessionNotFoundError, SessionVersionError } from "../contract/errors.ts";
import { STORAGE_VERSION, type StorageBranchScan } from "../contract/storage.ts";
import { assertSessionId } from "../contract/text.ts";
import { branchStatement } from "./branch-statement.ts";
import { entryOf, type StructureRow } from "./entry-columns.ts";
import { readArchive, readJournal, readPayloads, type StoredArchive } from "./read-journal.ts";
import {
  firstSeqStatement,
  readWrites,
  type StoredWrite,
  seqsStatement,
  valueStatement,
} from "./read-writes.ts";
import type { SessionKey } from "./session-key.ts";
import { isSession, METADATA_COLUMNS, metadataOf, type PgSessionMetadata } from "./session-row.ts";
import { streamOnSnapshot, type Tables, type Transaction } from "./transaction.ts";

/** A stored session at one moment. Read one thing after the other; reading ends with what reads it. */
export interface SessionSnapshot {
  readonly metadata: PgSessionMetadata;
  /** The `seq` of the next write. */
  readonly nextSeq: number;
  /** All writes that still count, in the order of their `seq`, in groups that fit into memory. */
  writes(fromSeq?: number): AsyncIterable<readonly StoredWrite[]>;
  /** The file that it was imported from; `undefined` if it was not. */
  archive(): Promise<StoredArchive | undefined>;
  /** The archive journal, in pieces. */
  journal(): AsyncIterable<Buffer>;
  /** JSON of the payloads that the journal can refer to, in the order of their `seq`. */
  payloads(range: { beforeSeq: number }): AsyncIterable<string>;
  /** The `seq` of a value, or of the first element of a list; `undefined` if there is none. */
  firstSeq(address: { kind: "value" | "list"; namespace: string; key: string }): Promise<number | undefined>;
  /** JSON text of a value; `undefined` if it is not set. */
  value(namespace: string, key: string): Promise<{ value: string; seq: number } | undefined>;
  /** Entries on a path to a root. `query.start` must be an entry of the session. */
  path(query: StorageBranchScan): Promise<Entry[]>;
  /** The `seq` of each of these entries; those that the session does not have are left out. */
  seqsOf(entryIds: readonly string[]): Promise<Map<string, number>>;
}

/** Reads whole sessions of a tenant. Get one from `repo.exporter`, and hand it to `exportSession`. */
export interface SessionExporter {
  /**
   * What `work` makes of a session, which it sees as it was at one moment. A connection is in use until the last of it
   * is taken, or the iteration is ended.
   *
   * @throws InvalidTextError, SessionNotFoundError, SessionVersionError, and what `work` throws
   */
  read<T>(
    sessionId: string,
    work: (session: SessionSnapshot) => AsyncIterable<T>,
    context: Context,
  ): AsyncGenerator<T>;
}

export class PgSessionExporter implements SessionExporter {
  readonly #tables: Tables;
  readonly #tenantId: string;
  readonly #admit: (operation: () => Promise<void>) => Promise<void>;

  /** @internal Get one from a repository. */
  constructor(tables: Tables, tenantId: string, admit: (operation: () => Promise<void>) => Promise<void>) {
    this.#tables = tables;
    this.#tenantId = tenantId;
    this.#admit = admit;
  }

  async *read<T>(
    sessionId: string,
    work: (session: SessionSnapshot) => AsyncIterable<T>,
    context: Context,
  ): AsyncGenerator<T> {
    assertSessionId("session id", sessionId);
    const key = { tenantId: this.#tenantId, sessionId };
    const end = await this.#begin();
    try {
      yield* streamOnSnapshot(this.#tables, context, (trx) => readSession(trx, key, work, context));
    } finally {
      end();
    }
  }

  /** Keeps the repository from closing until what this returns is called. */
  #begin(): Promise<() => void> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    return new Promise((admitted, refused) => {
      this.#admit(() => {
        admitted(end);
        return ended;
      }).catch(refused);
    });
  }
}

async function* readSession<T>(
  trx: Transaction,
  key: SessionKey,
  work: (session: SessionSnapshot) => AsyncIterable<T>,
  context: Context,
): AsyncGenerator<T> {
  const [[row]] = await trx.send(
    trx.db
      .selectFrom("sessions")
      .select([...METADATA_COLUMNS, "next_seq"])
      .where(isSession(key)),
  );
  if (row === undefined) throw new SessionNotFoundError(key.sessionId);
  const metadata = metadataOf(row);
  if (metadata.storageVersion > STORAGE_VERSION)
    throw new SessionVersionError(metadata.id, metadata.storageVersion);
  yield* work({
    metadata,
    nextSeq: row.next_seq,
    writes: (fromSeq = 1) => readWrites(trx, key, fromSeq, context),
    archive: () => readArchive(trx, key),
    journal: () => readJournal(trx, key, context),
    payloads: (range) => readPayloads(trx, key, range, context),
    async firstSeq(address) {
      const [[found]] = await trx.send(firstSeqStatement(trx.db, key, address));
      return found?.seq;
    },
    async value(namespace, name) {
      const [[found]] = await trx.send(valueStatement(trx.db, key, namespace, name));
      return found;
    },
    async path(query) {
      const [rows] = await trx.send(branchStatement(trx.db, key, query, { withPayload: true }));
      return rows
        .filter(({ entry_id: id }) => id !== null)
        .map((found) => entryOf(found as StructureRow & { payload: string }));
    },
    async seqsOf(entryIds) {
      const [rows] = await trx.send(seqsStatement(trx.db, key, entryIds));
      return new Map(rows.map(({ entry_id: id, seq }) => [id, seq]));
    },
  });
}
