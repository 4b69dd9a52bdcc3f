/** Names one typed value that a {@link Context} can carry; made by {@link createContextKey}. */
export interface ContextKey<T> {
  /** Tells keys apart; its description is what `Context.toString()` shows. */
  readonly token: symbol;
  /** Exists for the type checker only: keys of different value types do not mix. */
  readonly valueType?: (value: T) => T;
}

/**
 * What travels with every call: an abort signal and values of the caller. Immutable; derive a new one with {@link
 * withAbortSignal} or {@link withContextValue}.
 */
export interface Context {
  /**
   * Aborts the call. Before anything was sent, and while a read runs, the call rejects with the signal's reason; a
   * commit that was sent is finished and reported.
   */
  readonly abortSignal: AbortSignal | undefined;
  /** The value stored under `key`, by this context or the nearest one that it was derived from; else `undefined`. */
  value<T>(key: ContextKey<T>): T | undefined;
  /** The names of this context and of those it was derived from, for debugging. */
  toString(): string;
}

const ABORT_SIGNAL: ContextKey<AbortSignal | undefined> = createContextKey("abortSignal");

class RootContext implements Context {
  readonly abortSignal = undefined;
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  value<T>(_key: ContextKey<T>): T | undefined {
    return undefined;
  }

  toString(): string {
    return this.#name;
  }
}

class DerivedContext<V> implements Context {
  readonly #parent: Context;
  readonly #key: ContextKey<V>;
  readonly #value: V;

  constructor(parent: Context, key: ContextKey<V>, value: V) {
    this.#parent = parent;
    this.#key = key;
    this.#value = value;
  }

  get abortSignal(): AbortSignal | undefined {
    const own: unknown = this.#key;
    return own === ABORT_SIGNAL ? (this.#value as AbortSignal | undefined) : this.#parent.abortSignal;
  }

  value<T>(key: ContextKey<T>): T | undefined {
    return key.token === this.#key.token ? (this.#value as unknown as T) : this.#parent.value(key);
  }

  toString(): string {
    return `${this.#parent} > ${this.#key.token.description ?? "?"}`;
  }
}

/** The root of all contexts: no values, and no abort signal. */
export const BACKGROUND_CONTEXT: Context = new RootContext("background");

/**
 * Makes a key for {@link withContextValue}. Two keys never collide, even with the same description, which shows up in
 * `toString()` only.
 */
export function createContextKey<T>(description: string): ContextKey<T> {
  return Object.freeze({ token: Symbol(description) });
}

/** Derives a context that also carries `value` under `key`, hiding a value of `parent` under that key. */
export function withContextValue<T>(key: ContextKey<T>, value: T, parent: Context): Context {
  return new DerivedContext(parent, key, value);
}

/** Derives a context that is aborted by `signal`, and by the signal of `parent` if it has one. */
export function withAbortSignal(signal: AbortSignal, parent: Context): Context {
  const inherited = parent.abortSignal;
  const combined = inherited === undefined ? signal : AbortSignal.any([inherited, signal]);
  return withContextValue(ABORT_SIGNAL, combined, parent);
}
