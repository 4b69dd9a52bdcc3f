import { createHash } from "node:crypto";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import pg from "pg";
import { InvalidOptionError } from "../contract/errors.ts";
import { WIRE_TYPES } from "./wire-types.ts";

export interface PoolOptions {
  connectionString: string;
  applicationName: string;
}

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
 * The pool as Kysely uses it. A connection that dies, idle or in use, is noticed by the next statement on it;
 * it never ends the process. What arrives is read with {@link WIRE_TYPES}.
 */
export class GuardedPool implements PostgresPool {
  readonly Client = pg.Client as unknown as NonNullable<PostgresPool["Client"]>;
  readonly #pool: pg.Pool;
  readonly #owned: boolean;
  readonly #preparedStatements: boolean;
  readonly #clients = new WeakMap<pg.PoolClient, PostgresPoolClient>();

  constructor(pool: pg.Pool, { owned, preparedStatements }: { owned: boolean; preparedStatements: boolean }) {
    this.#pool = pool;
    this.#owned = owned;
    this.#preparedStatements = preparedStatements;
    pool.on("error", ignoreLostConnection);
    pool.on("acquire", listenForErrors);
  }

  get options(): object {
    return this.#pool.options;
  }

  async connect(): Promise<PostgresPoolClient> {
    const client = await this.#pool.connect();
    const known = this.#clients.get(client);
    if (known !== undefined) return known;
    const guarded = guard(client, this.#preparedStatements);
    this.#clients.set(client, guarded);
    return guarded;
  }

  /** A pool of ours ends before its sockets have closed, so it is listened to for good. */
  async end(): Promise<void> {
    if (this.#owned) return this.#pool.end();
    this.#pool.off("error", ignoreLostConnection);
    this.#pool.off("acquire", listenForErrors);
  }
}

function ignoreLostConnection(): void {}

/**
 * The pool stops listening when it hands a connection out. That it was ended may arrive together with the
 * server's greeting, before whoever waits for the connection runs, so this has to happen in between.
 */
function listenForErrors(client: pg.PoolClient): void {
  if (!client.listeners("error").includes(ignoreLostConnection)) client.on("error", ignoreLostConnection);
}

function guard(client: pg.PoolClient, preparedStatements: boolean): PostgresPoolClient {
  const { processID } = client as unknown as { processID?: number };
  const query = (text: string, values: unknown[]) =>
    client.query({
      text,
      values,
      types: WIRE_TYPES,
      ...(preparedStatements && values.length > 0 ? { name: statementName(text) } : {}),
    } as pg.QueryConfig);
  return {
    ...(processID === undefined ? {} : { processID }),
    query: query as unknown as PostgresPoolClient["query"],
    release: (destroy?: boolean) => client.release(destroy),
  };
}

const names = new Map<string, string>();

/** Statements have parameters for all data, so there are few texts, and planning each once per connection pays. */
function statementName(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `pi_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`;
    names.set(text, name);
  }
  return name;
}
