import { createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { STORAGE_VERSION } from "../contract/storage.ts";
import type { StoredWrite } from "../postgres/read-writes.ts";
import { type ArchiveFile, fileChanged } from "./archive-file.ts";
import { ArchiveError } from "./errors.ts";
import { v4Header, v4Line } from "./export-v4.ts";

/** Without any of these tables it is a database of something else. */
const TABLES = ["sessions", "entries", "scalar_values", "list_values", "usage_ledger"];
const MAGIC = Buffer.from("SQLite format 3\0");
/** How long to wait for another process that keeps the database to itself for a moment. */
const BUSY_TIMEOUT_MS = 5_000;

export async function isSqlite(file: ArchiveFile): Promise<boolean> {
  const start = Buffer.alloc(MAGIC.length);
  return (await file.read(start, 0, start.length)) === start.length && start.equals(MAGIC);
}

/**
 * A SQLite database with sessions, as pi-session-backend-sqlite-node writes it: one session in each, or many in one.
 * Nothing is written to it, or beside it.
 */
export class SqliteContainer implements Disposable {
  readonly #path: string;
  readonly #database: DatabaseSync;
  /** What the file looked like; `undefined` where others may write while it is read. */
  readonly #quiet: FileState | undefined;

  private constructor(path: string, database: DatabaseSync, quiet: FileState | undefined) {
    this.#path = path;
    this.#database = database;
    this.#quiet = quiet;
  }

  /** @throws ArchiveError; `not_an_archive` if it is a database of something else */
  static async open(path: string): Promise<SqliteContainer> {
    // Loaded where there is something to read with it, since Node.js 22 and 24 warn that it is experimental.
    const { DatabaseSync } = await import("node:sqlite");
    const url = pathToFileURL(path);
    const quiet = await quietState(path);
    // SQLite would leave files beside a database that nobody has open.
    if (quiet !== undefined) url.searchParams.set("immutable", "1");
    return said(path, () => {
      const database = new DatabaseSync(url, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
      const container = new SqliteContainer(path, database, quiet);
      try {
        container.#assertTables();
        return container;
      } catch (error) {
        database.close();
        throw error;
      }
    });
  }

  /** Ids of the sessions, in their order. */
  sessionIds(): string[] {
    return this.#said(() =>
      this.#database
        .prepare("select id from sessions order by id")
        .all()
        .map(({ id }) => id as string),
    );
  }

  /**
   * Writes a session as a format-4 file, as it is at one moment.
   *
   * @throws ArchiveError
   */
  async writeSession(sessionId: string, path: string): Promise<void> {
    this.#said(() => this.#database.exec("begin"));
    try {
      await pipeline(Readable.from(this.#lines(sessionId)), createWriteStream(path, { flags: "wx" }));
      await this.#assertUnchanged();
    } catch (error) {
      throw sqliteError(this.#path, error);
    } finally {
      this.#database.exec("rollback");
    }
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  *#lines(sessionId: string): Generator<string> {
    const row = this.#prepare("select * from sessions where id = ?").get(sessionId);
    if (row === undefined) throw fileChanged(this.#path);
    const {
      storage_version: storageVersion,
      created_at: createdAt,
      parent_session_id: parentSessionId,
    } = row;
    if (storageVersion !== STORAGE_VERSION) {
      const reason = `the session ${JSON.stringify(sessionId)} has storage version ${storageVersion}: only version ${STORAGE_VERSION} is read`;
      throw new ArchiveError("unsupported_version", { path: this.#path }, reason);
    }
    const parent = parentSessionId === null ? {} : { parentSessionId: parentSessionId as string };
    const metadata = { id: sessionId, storageVersion, createdAt: createdAt as number, ...parent };
    yield v4Header({ metadata, nextSeq: row["next_seq"] as number });
    for (const write of inSeqOrder(this.#writes(sessionId))) yield v4Line(write);
  }

  #writes(sessionId: string): Iterator<StoredWrite>[] {
    const rows = (table: string, columns: string) =>
      this.#prepare(`select ${columns} from ${table} where session_id = ? order by seq`).iterate(sessionId);
    return [
      map(rows("entries", "id, parent_id, seq, type, custom_type, timestamp, payload"), entryOf),
      map(rows("usage_ledger", "id, seq, entry_id, adjustment, usage, details"), usageOf),
      map(
        rows("scalar_values", "namespace, key, seq, value"),
        (row) => ({ kind: "value", ...row }) as StoredWrite,
      ),
      map(
        rows("list_values", "namespace, key, seq, value"),
        (row) => ({ kind: "list", ...row }) as StoredWrite,
      ),
    ];
  }

  #prepare(query: string): StatementSync {
    return this.#database.prepare(query);
  }

  #assertTables(): void {
    const found = this.#prepare("select name from sqlite_schema where type = 'table'").all();
    const names = new Set(found.map(({ name }) => name));
    if (TABLES.every((table) => names.has(table))) return;
    throw new ArchiveError("not_an_archive", { path: this.#path }, "this SQLite database has no pi sessions");
  }

  /** A database that is taken for immutable is read wrongly when somebody writes to it after all. */
  async #assertUnchanged(): Promise<void> {
    if (this.#quiet === undefined) return;
    const now = await quietState(this.#path);
    if (now?.size !== this.#quiet.size || now.mtimeMs !== this.#quiet.mtimeMs) throw fileChanged(this.#path);
  }

  #said<T>(work: () => T): T {
    return said(this.#path, work);
  }
}

type Row = Record<string, unknown>;

function entryOf({ id, parent_id, seq, type, custom_type, timestamp, payload }: Row): StoredWrite {
  const customType = custom_type === null ? {} : { customType: custom_type };
  return {
    kind: "entry",
    id,
    parentId: parent_id,
    seq,
    type,
    ...customType,
    timestamp,
    payload,
    role: null,
  } as StoredWrite;
}

function usageOf({ id, seq, entry_id: entryId, adjustment, usage, details }: Row): StoredWrite {
  return { kind: "usage", id, seq, entryId, adjustment: adjustment !== 0, usage, details } as StoredWrite;
}

function* map(rows: Iterable<Row>, work: (row: Row) => StoredWrite): Generator<StoredWrite> {
  for (const row of rows) yield work(row);
}

/** Merges what is in the order of `seq` each. */
function* inSeqOrder(sources: Iterator<StoredWrite>[]): Generator<StoredWrite> {
  const heads = sources.map((source) => ({ source, head: source.next() }));
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const candidate of heads) {
      if (candidate.head.done) continue;
      if (first === undefined || candidate.head.value.seq < first.head.value.seq) first = candidate;
    }
    if (first === undefined) return;
    yield first.head.value;
    first.head = first.source.next();
  }
}

interface FileState {
  size: number;
  mtimeMs: number;
}

/** `undefined` while somebody has the database open, or left it without closing it. */
async function quietState(path: string): Promise<FileState | undefined> {
  const beside = await Promise.all([`${path}-wal`, `${path}-journal`].map(exists));
  if (beside.includes(true)) return undefined;
  const { size, mtimeMs } = await stat(path);
  return { size, mtimeMs };
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

function said<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw sqliteError(path, error);
  }
}

/** What SQLite says against a database. */
function sqliteError(path: string, error: unknown): unknown {
  const { code, errstr } = (error ?? {}) as { code?: string; errstr?: string };
  if (code !== "ERR_SQLITE_ERROR") return error;
  const reason = `SQLite cannot read it (${errstr}): check that it is whole, and that nobody keeps it locked`;
  return new ArchiveError("unreadable", { path }, reason, { cause: error });
}
