import { createHash } from "node:crypto";
import type { PostgresPoolClient, PostgresQueryResult } from "kysely";
import pg from "pg";
import { backOff } from "../session/back-off.ts";
import { isConnectionLoss } from "./failure.ts";
import { WIRE_TYPES } from "./wire-types.ts";

/** A statement as it is sent. */
export interface WireStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

export const ROLLBACK: WireStatement = { sql: "rollback", parameters: [] };

/**
 * A connection as this package and Kysely use it. What arrives is read with {@link WIRE_TYPES}.
 *
 * Kysely runs migrations and an application's own queries, whose texts may be without number: they are planned each
 * time. The connection asks the server for its process id: the `processID` that a pooler reports means nothing there.
 */
export interface Connection extends PostgresPoolClient {
  /**
   * Sends all statements at once, without waiting for an answer in between where the driver can do that.
   * A statement that fails does not keep the others from being sent.
   */
  send(statements: readonly WireStatement[]): Promise<PromiseSettledResult<PostgresQueryResult<unknown>>[]>;
  /** This connection is not to be used again after its release. */
  discard(): void;
  /**
   * Asks the server to give up what was sent, until it is answered: a request that comes between two statements, or
   * while a pooler has no server for us, is ignored. One may also hit the commit, which then ends nothing. Resolves
   * when no such request can arrive any more and no transaction is left open.
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
  /** Not in old ones; `I` outside of a transaction. */
  getTransactionStatus?: () => string | null;
}

/** @param isPrepared whether statements with parameters that are sent are to be planned once per connection */
export function guardConnection(client: pg.PoolClient, isPrepared: () => boolean): Connection {
  const internals = client as pg.PoolClient & ClientInternals;
  const isPipelined = typeof internals.pipeline === "boolean";
  const wasPipelined = internals.pipeline;
  let isDiscarded = false;
  let answered: Promise<unknown> | undefined;

  const execute = async ({ sql, parameters }: WireStatement, { isNamed }: { isNamed: boolean }) => {
    try {
      return (await client.query({
        text: sql,
        values: parameters,
        types: WIRE_TYPES,
        ...(isNamed && parameters.length > 0 ? { name: statementName(sql) } : {}),
      } as pg.QueryConfig)) as unknown as PostgresQueryResult<unknown>;
    } catch (error) {
      // The driver may hear that the connection has ended only after the next one got it.
      if (isConnectionLoss(error)) isDiscarded = true;
      throw error;
    }
  };
  const send = async (statements: readonly WireStatement[]) => {
    const start = (statement: WireStatement) => execute(statement, { isNamed: isPrepared() });
    if (isPipelined) {
      internals.pipeline = true;
      return Promise.allSettled(statements.map(start));
    }
    const outcomes = [];
    for (const statement of statements) outcomes.push(...(await Promise.allSettled([start(statement)])));
    return outcomes;
  };

  const rollBack = async () => {
    const [outcome] = await send([ROLLBACK]);
    if (outcome?.status !== "fulfilled") isDiscarded = true;
  };

  return {
    query: ((sql: string, parameters: readonly unknown[]) =>
      execute({ sql, parameters }, { isNamed: false })) as PostgresPoolClient["query"],
    async send(statements) {
      const sending = send(statements);
      answered = sending;
      try {
        return await sending;
      } finally {
        answered = undefined;
      }
    },
    discard() {
      isDiscarded = true;
    },
    async cancel() {
      if (answered === undefined) return;
      for (let attempt = 1; answered !== undefined; attempt++) {
        await requestCancel(internals);
        await Promise.race([answered, backOff(attempt)]);
      }
      // Elsewhere it would be a warning in the server's log.
      if (internals.getTransactionStatus?.() !== "I") await rollBack();
    },
    release(destroy?: boolean) {
      // The caller's own pool gets its connection back as it was.
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
