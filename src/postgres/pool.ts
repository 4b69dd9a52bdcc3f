import type { PostgresPool, PostgresPoolClient } from "kysely";
import pg from "pg";
import { InvalidOptionError } from "../contract/errors.ts";
import { type Connection, guardConnection } from "./connection.ts";
import { connectFailure } from "./failure.ts";

export interface PoolOptions {
  connectionString: string;
  applicationName: string;
}

/**
 * Whether the server plans each statement once per connection: always, never, or until a pooler turns out not to keep
 * prepared statements (`auto`).
 */
export type PreparedStatements = "auto" | boolean;

/** How long a call waits for a connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;

/** @throws InvalidOptionError when the connection string is not one. */
export function createPool({ connectionString, applicationName }: PoolOptions): pg.Pool {
  if (!/^(postgres(ql)?|socket):/.test(connectionString) || !canParse(connectionString)) {
    throw new InvalidOptionError(
      "connectionString",
      "the given text",
      "use the form postgresql://user:password@host:5432/database",
    );
  }
  return new pg.Pool({
    connectionString,
    application_name: applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
  });
}

function canParse(connectionString: string): boolean {
  try {
    new pg.Client({ connectionString });
    return true;
  } catch {
    return false;
  }
}

/**
 * The pool as this package and Kysely use it. A connection that dies, idle or in use, is noticed by the next
 * statement on it; it never ends the process.
 */
export class GuardedPool implements PostgresPool {
  readonly Client = pg.Client as unknown as NonNullable<PostgresPool["Client"]>;
  readonly #pool: pg.Pool;
  readonly #owned: boolean;
  readonly #preparedStatements: PreparedStatements;
  #isPreparing: boolean;
  readonly #connections = new WeakMap<pg.PoolClient, Connection>();

  constructor(
    pool: pg.Pool,
    { owned, preparedStatements }: { owned: boolean; preparedStatements: PreparedStatements },
  ) {
    this.#pool = pool;
    this.#owned = owned;
    this.#preparedStatements = preparedStatements;
    this.#isPreparing = preparedStatements !== false;
    pool.on("error", ignoreLostConnection);
    pool.on("acquire", listenForErrors);
  }

  /** How many connections it has at most. */
  get size(): number {
    return this.#pool.options.max;
  }

  get options(): object {
    return this.#pool.options;
  }

  async connect(): Promise<Connection & PostgresPoolClient> {
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw connectFailure(error);
    });
    const known = this.#connections.get(client);
    if (known !== undefined) return known;
    const connection = guardConnection(client, () => this.#isPreparing);
    this.#connections.set(client, connection);
    return connection;
  }

  /**
   * Called when a prepared statement was gone, or was there already: a pooler between us and the server hands every
   * transaction to another connection.
   *
   * @returns whether it is worth trying again, without prepared statements from now on
   */
  stopPreparing(): boolean {
    if (this.#preparedStatements !== "auto") return false;
    this.#isPreparing = false;
    return true;
  }

  /** Our own pool ends before its sockets have closed, so its listeners stay. */
  async end(): Promise<void> {
    if (this.#owned) return this.#pool.end();
    this.#pool.off("error", ignoreLostConnection);
    this.#pool.off("acquire", listenForErrors);
  }
}

function ignoreLostConnection(): void {}

/**
 * The pool removes its own error listener when it hands out a connection. A shutdown notice can arrive together with
 * the server's greeting, before the caller runs, so ours is added in the pool's `acquire` event.
 */
function listenForErrors(client: pg.PoolClient): void {
  if (!client.listeners("error").includes(ignoreLostConnection)) client.on("error", ignoreLostConnection);
}
