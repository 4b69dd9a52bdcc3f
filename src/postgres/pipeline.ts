import { createHash } from "node:crypto";
import pg from "pg";
import { isAnswer } from "./failure.ts";
import { WIRE_TYPES } from "./wire-types.ts";

/** A statement as it is sent; a single one, since the server takes no more where parameters are. */
export interface WireStatement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
  /** One of countless texts, so that to keep it planned would not pay. */
  readonly isUnique?: boolean;
}

/**
 * What a connection knows of the statements that the server has planned for it, by name: their columns, which never
 * change, so that the server does not describe them again.
 */
export type PlannedStatements = Map<string, readonly Column[] | "uncertain">;

export interface PipelineAnswer {
  /** Of each statement, up to the one that failed. */
  readonly rows: unknown[][];
  /** Of the first statement that failed; those after it were not executed. */
  readonly failure: unknown;
  /** `I` outside of a transaction, `T` in one, `E` in one that has failed; `undefined` when nobody knows. */
  readonly status: string | undefined;
}

/** What the driver lets a query of another make do. */
interface DriverConnection extends NodeJS.EventEmitter {
  readonly stream: { cork(): void; uncork(): void };
  parse(message: { name: string; text: string; types: number[] }): void;
  bind(message: { portal: string; statement: string; values: readonly unknown[]; binary: boolean }): void;
  describe(message: { type: "P"; name: string }): void;
  execute(message: { portal: string; rows: number }): void;
  close(message: { type: "S"; name: string }): void;
  sync(): void;
}

/** What `pg` exports and its types do not. */
const { prepareValue } = (
  pg as unknown as { utils: { prepareValue(value: unknown): string | Buffer | null } }
).utils;

/**
 * Statements that go to the server in one piece, with one point of synchronization at their end. A query of the
 * driver's own has one each: with three of them, both sides would wake up, read and write three times.
 *
 * The methods are what the driver calls.
 */
export class Pipeline {
  readonly answer: Promise<PipelineAnswer>;
  readonly statements: readonly WireStatement[];
  /** The driver stops its own clock in it. */
  callback: (() => void) | undefined;
  readonly #planned: PlannedStatements | undefined;
  readonly #settle: (answer: PipelineAnswer) => void;
  #messages: readonly Message[] = [];
  readonly #rows: unknown[][] = [];
  /** Of the statement that is being answered, if the server has described it. */
  #described: readonly Column[] | undefined;
  #current: unknown[] = [];
  #failure: unknown;

  /** @param planned where statements are to be planned once; it takes one with parameters for that to pay */
  constructor(statements: readonly WireStatement[], planned: PlannedStatements | undefined) {
    this.statements = statements;
    this.#planned = statements.some(({ parameters }) => parameters.length > 0) ? planned : undefined;
    const { promise, resolve } = Promise.withResolvers<PipelineAnswer>();
    this.answer = promise;
    this.#settle = resolve;
  }

  /** @returns an error before anything was sent */
  submit(connection: DriverConnection): Error | null {
    try {
      this.#messages = this.statements.map((statement) => this.#message(statement));
    } catch (error) {
      return error as Error;
    }
    this.#listen(connection);
    connection.stream.cork();
    const parsed = new Set<string>();
    for (const { sql, name, values, columns } of this.#messages) {
      if (!parsed.has(name) && columns === undefined) {
        // It may be there, if it was in the way of an error.
        if (this.#planned?.has(name)) connection.close({ type: "S", name });
        connection.parse({ name, text: sql, types: [] });
        if (name !== "") {
          parsed.add(name);
          this.#planned?.set(name, "uncertain");
        }
      }
      connection.bind({ portal: "", statement: name, values, binary: false });
      if (columns === undefined) connection.describe({ type: "P", name: "" });
      connection.execute({ portal: "", rows: 0 });
    }
    connection.sync();
    connection.stream.uncork();
    return null;
  }

  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    this.#described = fields.map(({ name, dataTypeID }) => ({
      name,
      parse: WIRE_TYPES.getTypeParser(dataTypeID),
    }));
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this.#failure !== undefined) return;
    try {
      const row: Record<string, unknown> = {};
      const columns = this.#columns;
      fields.forEach((text, index) => {
        const { name, parse } = columns[index] as Column;
        row[name] = text === null ? null : parse(text);
      });
      this.#current.push(row);
    } catch (error) {
      this.#failure = error; // the driver would end the process
    }
  }

  handleCommandComplete(): void {
    const { name } = this.#messages[this.#rows.length] as Message;
    if (name !== "") this.#planned?.set(name, this.#columns);
    this.#rows.push(this.#current);
    this.#current = [];
    this.#described = undefined;
  }

  /** Of the statement that is being answered. */
  get #columns(): readonly Column[] {
    return this.#described ?? this.#messages[this.#rows.length]?.columns ?? NONE;
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete();
  }

  handleError(error: unknown): void {
    this.#failure ??= error;
    // After an answer of the server, its end of the transaction or of the connection follows. By its class it cannot be
    // told: the caller's pool may be of another copy of the driver.
    if (!isAnswer(error)) this.#end(undefined);
  }

  /** What there is to do is done when the status is known. */
  handleReadyForQuery(): void {}

  #message({ sql, parameters, isUnique }: WireStatement): Message {
    const name = this.#planned === undefined || isUnique === true ? "" : statementName(sql);
    const known = this.#planned?.get(name);
    return {
      sql,
      name,
      columns: known === "uncertain" ? undefined : known,
      values: parameters.map((value) => prepareValue(value)),
    };
  }

  #listen(connection: DriverConnection): void {
    const onReady = ({ status }: { status: string }) => {
      connection.off("end", onEnd);
      this.#end(status);
    };
    const onEnd = () => {
      connection.off("readyForQuery", onReady);
      this.#end(undefined);
    };
    connection.once("readyForQuery", onReady);
    connection.once("end", onEnd);
  }

  #end(status: string | undefined): void {
    this.callback?.();
    this.#settle({ rows: this.#rows, failure: this.#failure, status });
  }
}

interface Column {
  readonly name: string;
  readonly parse: (text: string) => unknown;
}

/** Of a statement without rows. */
const NONE: readonly Column[] = [];

interface Message {
  readonly sql: string;
  /** Empty for a statement that is planned for this once. */
  readonly name: string;
  /** Of a statement that the server has planned. */
  readonly columns: readonly Column[] | undefined;
  readonly values: readonly unknown[];
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
