import type { Context } from "../contract/context.ts";
import { SessionExistsError, SessionOpenError } from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { ForkOptions, SessionCreateOptions, SessionRepo } from "../contract/session.ts";
import { assertSessionId } from "../contract/text.ts";
import { Admission } from "../session/admission.ts";
import { StorageBackedSession, UUID_V7_IDS } from "../session/session.ts";
import { createSession } from "./create-session.ts";
import { deleteSession } from "./delete-session.ts";
import { DatabaseClosedError } from "./errors.ts";
import { PgSessionExporter, type SessionExporter } from "./export-session.ts";
import { forkSession } from "./fork-session.ts";
import { PgSessionImporter, type SessionImporter } from "./import-session.ts";
import { type Lineage, readLineage } from "./lineage.ts";
import { listSessions, type PgSessionListOptions, summarizeSessions } from "./list-sessions.ts";
import { type OpenOptions, openSession } from "./open-session.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { type PageOptions, pageSessions, type SessionPage } from "./page-sessions.ts";
import { newHead, type SessionHead } from "./session-head.ts";
import type { SessionKey } from "./session-key.ts";
import type { PgSessionMetadata } from "./session-row.ts";
import type { SessionSummary } from "./session-summary.ts";
import { setMetadata } from "./set-metadata.ts";
import { PgStorage } from "./storage.ts";
import type { Tables } from "./transaction.ts";
import { type VerifyOptions, type VerifyReport, verify } from "./verify.ts";

/** What a new session starts with. */
export interface PgSessionCreateOptions extends SessionCreateOptions {
  /** Working directory of the agent, by which the session can be listed; up to 4,096 bytes of UTF-8. */
  cwd?: string;
  /**
   * Data of the application, by which {@link PgSessionRepo.page} finds the session: a JSON object of up to 16,384
   * bytes, nested at most 32 levels deep, without NUL or lone surrogates.
   */
  metadata?: ReadonlyJsonObject;
}

/** `void` lets a repository stand where a plain `SessionRepo` is asked for, whose `list` takes no options. */
// biome-ignore lint/suspicious/noConfusingVoidType: it is the contract's own default
type ListOptions = PgSessionListOptions | void;

/** An open session that is stored in PostgreSQL. */
export type PgSession = StorageBackedSession<PgSessionMetadata>;

/**
 * The sessions of one tenant. Get one from `db.repo(tenant)`.
 *
 * A repository holds a session open at most once; other repositories and other processes may have it open too.
 * Besides the errors that a method names, any call may reject with those of `Database`, and rejects with the reason
 * of its context's abort signal once that is aborted.
 */
export class PgSessionRepo implements SessionRepo<PgSessionMetadata, PgSessionCreateOptions, ListOptions> {
  /** Stores whole archives; for `importArchives`. */
  readonly importer: SessionImporter;
  /** Reads whole sessions; for `exportSession`. */
  readonly exporter: SessionExporter;
  readonly #tables: Tables;
  readonly #tenantId: string;
  readonly #sessions: OpenSessions;
  readonly #open = new Map<string, { session: PgSession; storage: PgStorage }>();
  /** Ids of sessions that are being created, forked or opened here. */
  readonly #reserved = new Set<string>();
  readonly #admission = new Admission(() => new DatabaseClosedError("repository"));

  /** @internal */
  constructor(tables: Tables, tenantId: string, sessions: OpenSessions) {
    this.#tables = tables;
    this.#tenantId = tenantId;
    this.#sessions = sessions;
    this.importer = new PgSessionImporter(tables, tenantId, (operation) => this.#admit(operation));
    this.exporter = new PgSessionExporter(tables, tenantId, (operation) => this.#admit(operation));
  }

  /**
   * Creates an empty session, without branches, and opens it.
   *
   * @throws InvalidTextError, InvalidOptionError, SessionExistsError, TenantSuspendedError, TenantLimitError
   */
  create(options: PgSessionCreateOptions, context: Context): Promise<PgSession> {
    const createdAt = Date.now();
    const id = options.id ?? UUID_V7_IDS.next(createdAt);
    return this.#reserve(id, new SessionExistsError(id), async () =>
      this.#publish(await this.#insert(id, createdAt, options, context), newHead()),
    );
  }

  /**
   * Creates an empty session, without branches, for code that works on `Storage` itself. The session may be opened
   * more than once.
   *
   * @throws InvalidTextError, InvalidOptionError, SessionExistsError, TenantSuspendedError, TenantLimitError
   */
  createStorage(options: PgSessionCreateOptions, context: Context): Promise<PgStorage> {
    const createdAt = Date.now();
    const id = options.id ?? UUID_V7_IDS.next(createdAt);
    return this.#admit(async () => {
      await this.#insert(id, createdAt, options, context);
      return this.#bareStorage(id, newHead());
    });
  }

  /**
   * Opens a session, by the `id` of its metadata, for code that works on `Storage` itself. It may be opened more than
   * once.
   *
   * @throws InvalidTextError, SessionNotFoundError, SessionVersionError
   */
  openStorage(
    { id }: Pick<PgSessionMetadata, "id">,
    context: Context,
    options: OpenOptions = {},
  ): Promise<PgStorage> {
    return this.#admit(async () => {
      const { head, writerEpoch } = await openSession(this.#tables, this.#key(id), options, context);
      return this.#bareStorage(id, head, writerEpoch);
    });
  }

  /**
   * Opens a session by the `id` of its metadata.
   *
   * @throws InvalidTextError, SessionNotFoundError, SessionOpenError, SessionVersionError
   */
  open(
    metadata: Pick<PgSessionMetadata, "id">,
    context: Context,
    options: OpenOptions = {},
  ): Promise<PgSession> {
    const { id } = metadata;
    return this.#reserve(id, new SessionOpenError(id), async () => {
      const opened = await openSession(this.#tables, this.#key(id), options, context);
      return this.#publish(opened.metadata, opened.head, opened.writerEpoch);
    });
  }

  /**
   * Metadata of the tenant's sessions, newest first; those created at the same time by id. Without options: all of
   * them.
   *
   * @throws InvalidTextError, InvalidOptionError
   */
  list(options: ListOptions | undefined, context: Context): Promise<PgSessionMetadata[]> {
    return this.#admit(() => listSessions(this.#tables, this.#tenantId, options ?? {}, context));
  }

  /**
   * Summaries of the sessions that {@link PgSessionRepo.list} would return: with name, first user message and totals.
   *
   * @throws InvalidTextError, InvalidOptionError
   */
  summarize(options: PgSessionListOptions | undefined, context: Context): Promise<SessionSummary[]> {
    return this.#admit(() => summarizeSessions(this.#tables, this.#tenantId, options ?? {}, context));
  }

  /**
   * One page of the tenant's sessions, sorted and filtered, in one round trip however many there are. Sessions that
   * are created or deleted between two pages move no others from one page to another.
   *
   * @throws InvalidOptionError, InvalidTextError, InvalidCursorError
   * @example
   * const { sessions, next } = await repo.page({ sort: "modified", metadata: { userId: "u1" } }, context);
   */
  page(options: PageOptions, context: Context): Promise<SessionPage> {
    return this.#admit(() => pageSessions(this.#tables, this.#tenantId, options, context));
  }

  /**
   * Replaces the application's metadata of a session, open or not: a JSON object of up to 16,384 bytes, nested at
   * most 32 levels deep, without NUL or lone surrogates. Session objects that are open keep the metadata that they
   * were opened with.
   *
   * @throws InvalidTextError, InvalidOptionError, SessionNotFoundError, TenantSuspendedError
   */
  setMetadata(
    { id }: Pick<PgSessionMetadata, "id">,
    metadata: ReadonlyJsonObject,
    context: Context,
  ): Promise<void> {
    return this.#admit(() => setMetadata(this.#tables, this.#key(id), metadata, context));
  }

  /**
   * Where a session was forked from, and what was forked from it, in any generation.
   *
   * @throws InvalidTextError, SessionNotFoundError
   */
  lineage({ id }: Pick<PgSessionMetadata, "id">, context: Context): Promise<Lineage> {
    return this.#admit(() => readLineage(this.#tables, this.#key(id), context));
  }

  /**
   * Removes a session that is not open here, with everything in it, by the `id` of its metadata. Its forks stay.
   *
   * @throws InvalidTextError, SessionNotFoundError, SessionOpenError, TenantSuspendedError
   */
  delete(metadata: Pick<PgSessionMetadata, "id">, context: Context): Promise<void> {
    return this.#reserve(metadata.id, new SessionOpenError(metadata.id), () =>
      deleteSession(this.#tables, this.#key(metadata.id), context),
    );
  }

  /**
   * Copies a session, open or not, inside the server and opens the copy. Commits that this repository admitted before
   * are part of it; the application's metadata and the working directory are copied too.
   *
   * @throws InvalidTextError, InvalidOptionError, SessionNotFoundError, SessionExistsError, ForkError,
   *   TenantSuspendedError, TenantLimitError
   */
  fork(source: Pick<PgSessionMetadata, "id">, options: ForkOptions, context: Context): Promise<PgSession> {
    const createdAt = Date.now();
    const id = options.id ?? UUID_V7_IDS.next(createdAt);
    return this.#reserve(id, new SessionExistsError(id), async () => {
      // Commits of this repository that were admitted before the fork belong to it.
      await this.#open.get(source.id)?.storage.settled();
      const { metadata, head } = await forkSession(
        this.#tables,
        { source: this.#key(source.id), target: this.#key(id), options, createdAt },
        context,
      );
      return this.#publish(metadata, head);
    });
  }

  /**
   * Looks for inconsistencies in what is stored, session by session, while programs go on writing; with `repair`,
   * rebuilds what follows from other rows. Payloads stay in the server. docs/verify.md describes the checks.
   *
   * @returns numbers of sessions and findings; `onFinding` gets the findings themselves
   * @throws InvalidTextError, InvalidOptionError, SessionNotFoundError, and what `onFinding` throws
   * @throws DatabasePermissionError, TenantSuspendedError when it is to repair and may not
   * @example
   * const { findings } = await repo.verify({ onFinding: (finding) => console.log(finding) }, context);
   */
  verify(options: VerifyOptions | undefined, context: Context): Promise<VerifyReport> {
    return this.#admit(() => verify(this.#tables, this.#tenantId, options ?? {}, context));
  }

  /**
   * Admits nothing more, waits for what was admitted, and closes the sessions that are open here. Closing again waits
   * for the same end.
   */
  close(context: Context): Promise<void> {
    return this.#admission.close(async () => {
      await Promise.all([...this.#open.values()].map(({ session }) => session.close(context)));
    });
  }

  #insert(
    id: string,
    createdAt: number,
    { cwd, parentSessionId, metadata }: PgSessionCreateOptions,
    context: Context,
  ): Promise<PgSessionMetadata> {
    return createSession(
      this.#tables,
      this.#key(id),
      {
        id,
        createdAt,
        ...(cwd === undefined ? {} : { cwd }),
        ...(parentSessionId === undefined ? {} : { parentSessionId }),
        ...(metadata === undefined ? {} : { metadata }),
      },
      context,
    );
  }

  #admit<T>(operation: () => Promise<T>): Promise<T> {
    return this.#sessions.run(() => this.#admission.run(operation));
  }

  /** While `work` runs, nothing else here may create, open, fork to or delete the session. */
  #reserve<T>(id: string, taken: Error, work: () => Promise<T>): Promise<T> {
    return this.#admit(async () => {
      if (this.#isTaken(id)) throw taken;
      this.#reserved.add(id);
      try {
        return await work();
      } finally {
        this.#reserved.delete(id);
      }
    });
  }

  #isTaken(id: string): boolean {
    return this.#open.has(id) || this.#reserved.has(id);
  }

  #publish(metadata: PgSessionMetadata, head: SessionHead, writerEpoch = 0): PgSession {
    const { id } = metadata;
    const storage = new PgStorage(this.#tables, { key: this.#key(id), writerEpoch, head });
    const session = new StorageBackedSession(metadata, storage, {
      onClose: () => {
        this.#open.delete(id);
        this.#sessions.delete(session);
      },
    });
    this.#open.set(id, { session, storage });
    this.#sessions.add(session);
    return session;
  }

  #bareStorage(id: string, head: SessionHead, writerEpoch = 0): PgStorage {
    const writer = { key: this.#key(id), writerEpoch, head };
    const storage = new PgStorage(this.#tables, writer, () => this.#sessions.delete(storage));
    this.#sessions.add(storage);
    return storage;
  }

  /** @throws InvalidTextError */
  #key(sessionId: string): SessionKey {
    assertSessionId("session id", sessionId);
    return { tenantId: this.#tenantId, sessionId };
  }
}
