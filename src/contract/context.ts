/** Names one typed value that a {@link Context} can carry. */
export interface ContextKey<T> {
  readonly token: symbol;
  /** Exists for the type checker only: keys of different value types do not mix. */
  readonly valueType?: (value: T) => T;
}

/** What travels with every call: an abort signal and values of the caller. Never changed, only derived from. */
export interface Context {
  readonly abortSignal: AbortSignal | undefined;
  value<T>(key: ContextKey<T>): T | undefined;
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

/** The context of work that nobody waits for or cancels. */
export const BACKGROUND_CONTEXT: Context = new RootContext("background");

/** Makes a key under which {@link withContextValue} stores a value. `description` shows up in `toString()`. */
export function createContextKey<T>(description: string): ContextKey<T> {
  return Object.freeze({ token: Symbol(description) });
}

/** A context that also carries `value` under `key`. */
export function withContextValue<T>(key: ContextKey<T>, value: T, parent: Context): Context {
  return new DerivedContext(parent, key, value);
}

/** A context that is aborted by `signal`, and by the signal of `parent` if it has one. */
export function withAbortSignal(signal: AbortSignal, parent: Context): Context {
  const inherited = parent.abortSignal;
  const combined = inherited === undefined ? signal : AbortSignal.any([inherited, signal]);
  return withContextValue(ABORT_SIGNAL, combined, parent);
}
