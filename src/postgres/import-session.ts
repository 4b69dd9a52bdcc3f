import { randomUUID } from "node:crypto";
import type { Context } from "../contract/context.ts";
import { assertSessionId } from "../contract/text.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { CommittedWrite } from "../contract/write.ts";
import { addOnce } from "./add-once.ts";
import { addSession, type NewSession } from "./create-session.ts";
import { ImportWriter } from "./import-writer.ts";
import { read, readCommitted, type Tables, type Transaction } from "./transaction.ts";
import type { SpendingEntry } from "./usage-attribution.ts";

/** The file that a session was imported from. */
export interface ArchiveRecord {
  /** Version of the archive format: 1 to 4. */
  format: number;
  /** SHA-256 of the whole file, in hexadecimal. */
  sha256: string;
  /** Size of the file. */
  bytes: number;
}

/**
 * A placed write. An entry may bring the JSON text of its payload (what it has beside id, parent, seq, time, type and
 * custom type) as it stands in the archive, in UTF-8; otherwise it is made from its fields. A usage row may say
 * what the entry that it names tells of it, which is then not looked up.
 */
export type ImportedWrite = CommittedWrite & { payloadJson?: Buffer; spentBy?: SpendingEntry };

/** A piece of an archive that fits into memory. */
export interface ImportChunk {
  /** In the order of their `seq`. */
  writes: readonly ImportedWrite[];
  /** What goes on the session's archive journal; may be empty. */
  journal: Buffer;
}

/** The content of one archive, on its way into the database. Read once. */
export interface ImportStream {
  /** All writes in the order of their `seq`. Parents come before their children. */
  chunks: AsyncIterable<ImportChunk>;
  /** Called after the last chunk. `nextSeq` is the `seq` of the session's next write. */
  finish(): { nextSeq: number; archive: ArchiveRecord };
}

/** Stores whole archives in a tenant. Get one from `repo.importer`, and hand it to `importArchives`. */
export interface SessionImporter {
  /** How many imports can run at a time: the connections of the pool. */
  readonly connections: number;
  /**
   * Looks for a session. `undefined` if there is none; `archive` is `undefined` if the session was not imported.
   *
   * @throws InvalidTextError
   */
  find(sessionId: string, context: Context): Promise<{ archive: ArchiveRecord | undefined } | undefined>;
  /**
   * Stores a session in one transaction. `open` is called again if the transaction has to be repeated.
   *
   * @returns totals of the stored session
   * @throws InvalidTextError, InvalidOptionError, InvalidWriteError, SessionExistsError, DuplicateIdError,
   *   MissingParentError, TenantSuspendedError, TenantLimitError, CommitOutcomeUnknownError, and what `open` or its stream throws; then nothing
   *   is left behind
   */
  import(session: NewSession, open: () => ImportStream, context: Context): Promise<SessionStats>;
}

export class PgSessionImporter implements SessionImporter {
  readonly #tables: Tables;
  readonly #tenantId: string;
  readonly #admit: <T>(operation: () => Promise<T>) => Promise<T>;

  /** @internal Get one from a repository. */
  constructor(tables: Tables, tenantId: string, admit: <T>(operation: () => Promise<T>) => Promise<T>) {
    this.#tables = tables;
    this.#tenantId = tenantId;
    this.#admit = admit;
  }

  get connections(): number {
    return this.#tables.pool.size;
  }

  find(sessionId: string, context: Context): Promise<{ archive: ArchiveRecord | undefined } | undefined> {
    return this.#admit(() => this.#find(sessionId, context));
  }

  import(session: NewSession, open: () => ImportStream, context: Context): Promise<SessionStats> {
    return this.#admit(() => this.#import(session, open, context));
  }

  async #find(
    sessionId: string,
    context: Context,
  ): Promise<{ archive: ArchiveRecord | undefined } | undefined> {
    assertSessionId("session id", sessionId);
    const [row] = await read(this.#tables, context, (db) =>
      db
        .selectFrom("sessions as s")
        .leftJoin("archives as a", (join) =>
          join.on("a.tenant_id", "=", this.#tenantId).on("a.session_id", "=", sessionId),
        )
        .select(["a.format", "a.sha256", "a.bytes"])
        .where("s.tenant_id", "=", this.#tenantId)
        .where("s.session_id", "=", sessionId),
    );
    if (row === undefined) return undefined;
    const { format, sha256, bytes } = row;
    return {
      archive: format === null || sha256 === null || bytes === null ? undefined : { format, sha256, bytes },
    };
  }

  async #import(session: NewSession, open: () => ImportStream, context: Context): Promise<SessionStats> {
    const tables = this.#tables;
    const key = { tenantId: this.#tenantId, sessionId: session.id };
    const addition = { key, commitId: randomUUID(), createdAt: session.createdAt };
    const { head } = await addOnce(tables, addition, (attempted) => {
      const work = async (trx: Transaction, isUncertain: boolean) => {
        attempted(isUncertain);
        const { metadata } = await addSession(trx, tables, key, session);
        return { metadata, head: await new ImportWriter(tables, trx, addition).run(open()) };
      };
      // Nobody else can see the session before the end, so there is nothing that a snapshot would protect.
      return readCommitted(tables, context, work, { isRepeatable: true });
    });
    return head.stats;
  }
}
