import { BACKGROUND_CONTEXT, type Context, withAbortSignal } from "../contract/context.ts";
import { tell } from "./output.ts";

const controller = new AbortController();
let received: NodeJS.Signals | undefined;

/** Of everything that a command does and that Ctrl-C shall end. */
export const context: Context = withAbortSignal(controller.signal, BACKGROUND_CONTEXT);

/** Why a command did not get to its end. */
class InterruptedError extends Error {
  override name = "InterruptedError";
}

/**
 * The first Ctrl-C lets a command undo what is half done and stop the server that it started; the second one ends
 * the process at once. Then the server is stopped by its supervisor, and a transaction by PostgreSQL.
 */
export function heedSignals(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (received !== undefined) endBy(signal);
      received = signal;
      tell("Stopping. Ctrl-C again ends at once.");
      controller.abort(new InterruptedError(`interrupted by ${signal}`));
    });
  }
}

/** The signal that kept a command from its end, if that is why it failed. */
export function interruptedBy(): NodeJS.Signals | undefined {
  return received;
}

/** Ends this process by the signal itself, so that a shell's loop around it ends as well. */
export function endBy(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

/** Waits for work that knows no abort, but no longer than until Ctrl-C. What it then still opens is closed. */
export async function unlessInterrupted<T extends AsyncDisposable>(opening: Promise<T>): Promise<T> {
  const { signal } = controller;
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort);
  try {
    return await Promise.race([opening, interrupted]);
  } catch (error) {
    opening.then(
      (opened) => opened[Symbol.asyncDispose](),
      () => {},
    );
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
