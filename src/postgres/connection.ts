import type { PostgresPoolClient } from "kysely";
import pg from "pg";
import { backOff } from "../session/back-off.ts";
import { isConnectionLoss } from "./failure.ts";
import { Pipeline, type PlannedStatements, type WireStatement } from "./pipeline.ts";
import { WIRE_TYPES } from "./wire-types.ts";

const ROLLBACK: WireStatement = { sql: "rollback", parameters: [] };

/**
 * A connection as this package and Kysely use it. What arrives is read with {@link WIRE_TYPES}.
 *
 * Kysely runs migrations and an application's own queries, whose texts may be without number: they are planned each
 * time. The connection asks the server for its process id: the `processID` that a pooler reports means nothing there.
 */
export interface Connection extends PostgresPoolClient {
  /**
   * Sends all statements at once and resolves to the rows of each. Those after one that fails are not executed, so
   * a transaction that was begun stays open then.
   */
  send(statements: readonly WireStatement[]): Promise<unknown[][]>;
  /** Ends the transaction that what was sent has left open, if it has. */
  rollBack(): Promise<void>;
  /**
   * Asks the server to give up what was sent, until it is answered: a request that comes between two statements, or
   * while a pooler has no server for us, is ignored. Resolves when no such request can arrive any more.
   */
  cancel(): Promise<void>;
}

/** What `pg` has and its types do not. */
interface ClientInternals {
  processID?: number | null;
  secretKey?: number | null;
  host?: string;
  port?: number;
  ssl?: boolean | object;
  sslNegotiation?: string;
  /** Since 8.23. */
  pipeline?: boolean;
}

/** @param isPlanning whether statements that are sent are to be planned once per connection */
export function guardConnection(client: pg.PoolClient, isPlanning: () => boolean): Connection {
  const internals = client as pg.PoolClient & ClientInternals;
  const wasPipelined = internals.pipeline;
  const planned: PlannedStatements = new Map();
  let isDiscarded = false;
  let isInTransaction = false;
  let answered: Promise<unknown> | undefined;

  const send = async (statements: readonly WireStatement[]) => {
    const pipeline = new Pipeline(statements, isPlanning() ? planned : undefined);
    // In its own pipeline, the driver takes no queries of others.
    if (wasPipelined === true) internals.pipeline = false;
    answered = pipeline.answer;
    client.query(pipeline as unknown as pg.Submittable);
    const { rows, failure, status } = await pipeline.answer;
    answered = undefined;
    isInTransaction = status !== undefined && status !== "I";
    if (status === undefined) isDiscarded = true;
    if (failure !== undefined || status === undefined) throw failure ?? new Error("The connection ended");
    return rows;
  };

  return {
    query: (async (sql: string, parameters: readonly unknown[]) => {
      try {
        return await client.query({ text: sql, values: parameters as unknown[], types: WIRE_TYPES });
      } catch (error) {
        // The driver may hear that the connection has ended only after the next one got it.
        if (isConnectionLoss(error)) isDiscarded = true;
        throw error;
      }
    }) as unknown as PostgresPoolClient["query"],
    send,
    async rollBack() {
      if (!isInTransaction) return;
      isInTransaction = false;
      await send([ROLLBACK]).catch(() => {
        isDiscarded = true;
      });
    },
    async cancel() {
      for (let attempt = 1; answered !== undefined; attempt++) {
        await requestCancel(internals);
        await Promise.race([answered, backOff(attempt)]);
      }
    },
    release(destroy?: boolean) {
      // The caller's own pool gets its connection back as it was.
      if (wasPipelined === true) internals.pipeline = true;
      client.release(destroy === true || isDiscarded);
    },
  };
}

const CANCEL_TIMEOUT_MS = 10_000;

/** What `pg` has and its types do not. */
type BareConnection = pg.Connection & {
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
};

/**
 * The protocol's own request, on a connection of its own, encrypted if the other one is: unlike `pg_cancel_backend`
 * it finds its way through a pooler. The server closes that connection after it has passed the request on.
 */
function requestCancel({ processID, secretKey, host, port, ...encryption }: ClientInternals): Promise<void> {
  if (typeof processID !== "number" || typeof secretKey !== "number" || port === undefined)
    return Promise.resolve();
  const { ssl = false, sslNegotiation = "postgres" } = encryption;
  return new Promise((resolve) => {
    const connection = new pg.Connection({ ssl, sslNegotiation } as pg.ConnectionConfig) as BareConnection;
    const impatience = setTimeout(() => connection.stream.destroy(), CANCEL_TIMEOUT_MS);
    const request = () => connection.cancel(processID, secretKey);
    const done = () => {
      clearTimeout(impatience);
      resolve();
    };
    connection.once("connect", () => {
      if (ssl === false) request();
      else if (sslNegotiation !== "direct") connection.requestSsl();
    });
    connection.once("sslconnect", request);
    connection.on("error", done);
    connection.once("end", done);
    if (host?.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
}
