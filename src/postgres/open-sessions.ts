import type { Context } from "../contract/context.ts";
import { DatabaseClosedError } from "./errors.ts";

interface Closable {
  close(context: Context): Promise<void>;
}

/** The sessions that are open in one database object, for its `close()`. */
export class OpenSessions {
  readonly #sessions = new Set<Closable>();
  #closing: Promise<void> | undefined;

  assertOpen(): void {
    if (this.#closing !== undefined) throw new DatabaseClosedError("database");
  }

  add(session: Closable): void {
    this.#sessions.add(session);
  }

  delete(session: Closable): void {
    this.#sessions.delete(session);
  }

  /** Lets nothing more in, closes every session, then runs `afterwards`. */
  close(context: Context, afterwards: () => Promise<void>): Promise<void> {
    this.#closing ??= Promise.all([...this.#sessions].map((session) => session.close(context))).then(
      afterwards,
    );
    return this.#closing;
  }
}
