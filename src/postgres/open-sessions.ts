import type { Context } from "../contract/context.ts";
import { Admission } from "../session/admission.ts";
import { DatabaseClosedError } from "./errors.ts";

interface Closable {
  close(context: Context): Promise<void>;
}

/** What goes on in one database object: the operations that run and the sessions that are open. */
export class OpenSessions {
  readonly #admission = new Admission(() => new DatabaseClosedError("database"));
  readonly #sessions = new Set<Closable>();

  /** Runs an operation that `close` waits for. */
  run<T>(operation: () => Promise<T>): Promise<T> {
    return this.#admission.run(operation);
  }

  add(session: Closable): void {
    this.#sessions.add(session);
  }

  delete(session: Closable): void {
    this.#sessions.delete(session);
  }

  /** Lets nothing more in, waits for what runs, closes every session, then runs `afterwards`. */
  close(context: Context, afterwards: () => Promise<void>): Promise<void> {
    return this.#admission.close(async () => {
      await Promise.allSettled([...this.#sessions].map((session) => session.close(context)));
      await afterwards();
    });
  }
}
