import { createHash } from "node:crypto";
import type { PostgresPoolClient, PostgresQueryResult } from "kysely";
import pg from "pg";
import { WIRE_TYPES } from "./wire-types.ts";

/** A statement as it is sent. */
export interface WireStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

/** A connection as this package and Kysely use it. What arrives is read with {@link WIRE_TYPES}. */
export interface Connection extends PostgresPoolClient {
  /**
   * Sends all statements at once, without waiting for an answer in between where the driver can do that.
   * A statement that fails does not keep the others from being sent.
   */
  send(statements: readonly WireStatement[]): Promise<PromiseSettledResult<PostgresQueryResult<unknown>>[]>;
  /** This connection is not to be used again after its release. */
  discard(): void;
  /** Asks the server to give up what runs here. Resolves when no such request can arrive any more. */
  cancel(): Promise<void>;
}

/** What `pg` has and its types do not. */
interface ClientInternals {
  processID?: number | null;
  secretKey?: number | null;
  host?: string;
  port?: number;
  /** Since 8.23. */
  pipeline?: boolean;
}

/** @param isPrepared whether statements with parameters are to be planned once per connection */
export function guardConnection(client: pg.PoolClient, isPrepared: () => boolean): Connection {
  const internals = client as pg.PoolClient & ClientInternals;
  const isPipelined = typeof internals.pipeline === "boolean";
  const wasPipelined = internals.pipeline;
  let isDiscarded = false;
  const query = async (text: string, values: readonly unknown[]) =>
    (await client.query({
      text,
      values,
      types: WIRE_TYPES,
      ...(values.length > 0 && isPrepared() ? { name: statementName(text) } : {}),
    } as pg.QueryConfig)) as unknown as PostgresQueryResult<unknown>;

  return {
    ...(typeof internals.processID === "number" ? { processID: internals.processID } : {}),
    query: query as PostgresPoolClient["query"],
    async send(statements) {
      if (isPipelined) {
        internals.pipeline = true;
        return Promise.allSettled(statements.map(({ sql, parameters }) => query(sql, parameters)));
      }
      const outcomes = [];
      for (const { sql, parameters } of statements) {
        outcomes.push(...(await Promise.allSettled([query(sql, parameters)])));
      }
      return outcomes;
    },
    discard() {
      isDiscarded = true;
    },
    cancel: () => requestCancel(internals),
    release(destroy?: boolean) {
      // A pool of yours gets its connection back as it was.
      if (isPipelined) internals.pipeline = wasPipelined === true;
      client.release(destroy === true || isDiscarded);
    },
  };
}

const names = new Map<string, string>();

/**
 * Statements have parameters for all data, so there are few texts, and planning each once per connection pays.
 * The name follows from the text: behind a pooler, a statement that another client prepared is the same one.
 */
function statementName(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `pi_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`;
    names.set(text, name);
  }
  return name;
}

/**
 * The protocol's own request, on a connection of its own: unlike `pg_cancel_backend` it finds its way through a
 * pooler. The server closes that connection after it has passed the request on.
 */
function requestCancel({ processID, secretKey, host, port }: ClientInternals): Promise<void> {
  if (typeof processID !== "number" || typeof secretKey !== "number" || port === undefined)
    return Promise.resolve();
  return new Promise((resolve) => {
    const connection = new pg.Connection({}) as pg.Connection & {
      connect(portOrPath: number | string, host?: string): void;
      cancel(processID: number, secretKey: number): void;
    };
    connection.once("connect", () => connection.cancel(processID, secretKey));
    connection.once("error", () => resolve());
    connection.once("end", () => resolve());
    if (host?.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
}
