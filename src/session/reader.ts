import type { ListElement, ListReadOptions, StoredValue, Value, ValueList } from "../contract/address.ts";
import type { Context } from "../contract/context.ts";
import type { Entry } from "../contract/entry.ts";
import type { SessionReader } from "../contract/session.ts";
import type { StorageBranchScan } from "../contract/storage.ts";
import type { SessionStats } from "../contract/usage.ts";

/** Reads for as long as its owner may. */
export abstract class StorageReader implements SessionReader {
  readonly #source: SessionReader;

  constructor(source: SessionReader) {
    this.#source = source;
  }

  /** Throws when reading is over. */
  protected abstract assertUsable(): void;

  async getEntries(ids: string[], context: Context): Promise<Map<string, Entry>> {
    this.assertUsable();
    return this.#source.getEntries(ids, context);
  }

  async getStats(context: Context): Promise<SessionStats> {
    this.assertUsable();
    return this.#source.getStats(context);
  }

  async getValue<T>(address: Value<T>, context: Context): Promise<StoredValue<T> | undefined> {
    this.assertUsable();
    return this.#source.getValue(address, context);
  }

  async scanValues<T>(prefix: Value<T>, context: Context): Promise<StoredValue<T>[]> {
    this.assertUsable();
    return this.#source.scanValues(prefix, context);
  }

  async readList<T>(
    address: ValueList<T>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<T>[]> {
    this.assertUsable();
    return this.#source.readList(address, options, context);
  }

  async scanBranch(query: StorageBranchScan, context: Context): Promise<Entry[]> {
    this.assertUsable();
    return this.#source.scanBranch(query, context);
  }
}
