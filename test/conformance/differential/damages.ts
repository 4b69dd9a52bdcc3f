/** Ways in which a backend on SQL could be broken; the comparison must find each of them. */
import type {
  Context,
  Entry,
  ForkOptions,
  ListElement,
  ListReadOptions,
  Storage,
  StoredValue,
  Value,
  ValueList,
} from "../../../src/index.ts";

/** A memory storage as a damage sees it. Its fork is no part of the contract. */
export interface Breakable extends Omit<Storage, "getValue" | "scanValues" | "readList"> {
  getValue(address: Value<unknown>, context: Context): Promise<StoredValue<unknown> | undefined>;
  scanValues(prefix: Value<unknown>, context: Context): Promise<StoredValue<unknown>[]>;
  readList(
    address: ValueList<unknown>,
    options: ListReadOptions | undefined,
    context: Context,
  ): Promise<ListElement<unknown>[]>;
  fork(options: ForkOptions): Promise<{ storageState: MemoryState }>;
}

interface MemoryState {
  nextSeq: number;
  readonly entriesBySeq: readonly Entry[];
  readonly scalarValues: Map<string, StoredValue<unknown>>;
}

/** Gets the sound methods and returns the broken ones. */
export type Damage = (sound: Breakable) => Partial<Breakable>;

export const DAMAGES: Record<string, Damage> = {
  "filters a path after its limit instead of before": ({ scanBranch }) => ({
    async scanBranch({ type, customType, ...query }, context) {
      return (await scanBranch(query, context)).filter(
        (entry) =>
          (type === undefined || entry.type === type) &&
          (customType === undefined || entry.customType === customType),
      );
    },
  }),
  "leaves out the entry that a path stops at": ({ scanBranch }) => ({
    async scanBranch(query, context) {
      return (await scanBranch(query, context)).filter(({ id }) => id !== query.stopAtId);
    },
  }),
  "stops a path at the last entry of the type, not at the first": ({ scanBranch }) => ({
    scanBranch: ({ stopAtType, ...query }, context) =>
      scanBranch(
        query.order === "oldestFirst" || stopAtType === undefined ? query : { ...query, stopAtType },
        context,
      ),
  }),
  "ignores the cursor of a path that is read from its root": ({ scanBranch }) => ({
    scanBranch: ({ cursor, ...query }, context) =>
      scanBranch(
        query.order === "oldestFirst" || cursor === undefined ? query : { ...query, cursor },
        context,
      ),
  }),
  "finds an empty path where the start is unknown": ({ scanBranch }) => ({
    scanBranch: (query, context) => scanBranch(query, context).catch(() => []),
  }),
  "leaves the custom type out of a structure": ({ scanBranchStructure }) => ({
    async scanBranchStructure(query, context) {
      return (await scanBranchStructure(query, context)).map(({ customType: _, ...structure }) => structure);
    },
  }),
  "takes a range without its upper end": ({ scanEntries }) => ({
    async scanEntries(query, context) {
      return (await scanEntries(query, context)).filter(({ seq }) => seq !== query.toSeq);
    },
  }),
  "returns entries in another order than they were asked for in": ({ getEntries }) => ({
    async getEntries(ids, context) {
      return getEntries(ids.toReversed(), context);
    },
  }),
  "sorts keys by UTF-16 unit": ({ scanValues }) => ({
    async scanValues(prefix, context) {
      return (await scanValues(prefix, context)).toSorted((one, two) =>
        one.address.key < two.address.key ? -1 : 1,
      );
    },
  }),
  "takes a prefix for a LIKE pattern": ({ scanValues }) => ({
    async scanValues(prefix, context) {
      const pattern = prefix.key
        .replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
        .replaceAll("%", ".*")
        .replaceAll("_", ".");
      const all = await scanValues({ ...prefix, key: "" }, context);
      return all.filter(({ address }) => new RegExp(`^${pattern}`, "su").test(address.key));
    },
  }),
  "reads a list with a limit of 0 as an empty one": ({ readList }) => ({
    async readList(address, options, context) {
      return options?.limit === 0 ? [] : readList(address, options, context);
    },
  }),
  "drops NUL characters from payloads": ({ getEntries }) => ({
    async getEntries(ids, context) {
      return new Map(
        [...(await getEntries(ids, context))].map(([id, entry]) => [
          id,
          JSON.parse(JSON.stringify(entry).replaceAll(String.raw`\u0000`, "")) as Entry,
        ]),
      );
    },
  }),
  "replaces lone surrogates in values": ({ scanValues }) => ({
    async scanValues(prefix, context) {
      return (await scanValues(prefix, context)).map((stored) => ({
        ...stored,
        value: typeof stored.value === "string" ? stored.value.toWellFormed() : stored.value,
      }));
    },
  }),
  "sorts the keys of payloads, as jsonb does": ({ scanEntries }) => ({
    async scanEntries(query, context) {
      return (await scanEntries(query, context)).map(
        (entry) => JSON.parse(JSON.stringify(entry, sortedKeys)) as Entry,
      );
    },
  }),
  "keeps the first write of a commit that it refuses": ({ commit }) => ({
    commit: (writes, context) =>
      commit(writes, context).catch(async (error) => {
        await commit(writes.slice(0, 1), context).catch(() => {});
        throw error;
      }),
  }),
  "checks ids of entries and of usage rows apart": ({ commit, scanUsage }) => ({
    async commit(writes, context) {
      const spent = new Set((await scanUsage({}, context)).map(({ id }) => id));
      return commit(
        writes.map((write) =>
          write.kind === "entry" && spent.has(write.entry.id)
            ? { ...write, entry: { ...write.entry, id: `${write.entry.id}'` } }
            : write,
        ),
        context,
      );
    },
  }),
  "accepts a parent that comes later in the commit": ({ commit }) => ({
    commit: (writes, context) => commit(writes, context).catch(() => commit(writes.toReversed(), context)),
  }),
  "uses up a seq for a commit without writes": ({ commit }) => ({
    async commit(writes, context) {
      if (writes.length > 0) return commit(writes, context);
      const nothing = { kind: "value", op: "delete", namespace: "none", key: "" } as const;
      return { ...(await commit([nothing], context)), seqs: [] };
    },
  }),
  "adds up costs in any order": ({ getStats, scanUsage }) => ({
    async getStats(context) {
      const stats = await getStats(context);
      const rows = await scanUsage({ order: "desc" }, context);
      const total = rows.reduce((sum, { usage }) => sum + usage.cost.total, 0);
      return { ...stats, usage: { ...stats.usage, cost: { ...stats.usage.cost, total } } };
    },
  }),
  "dates entries later than it says": ({ scanEntries }) => ({
    async scanEntries(query, context) {
      return (await scanEntries(query, context)).map((entry) => ({
        ...entry,
        timestamp: entry.timestamp + 1,
      }));
    },
  }),
  "numbers the writes of a fork from its last entry on": ({ fork }) => ({
    async fork(options) {
      const forked = await fork(options);
      forked.storageState.nextSeq = (forked.storageState.entriesBySeq.at(-1)?.seq ?? 0) + 1;
      return forked;
    },
  }),
  "forgets the labels in a fork": ({ fork }) => ({
    async fork(options) {
      const forked = await fork(options);
      const { scalarValues } = forked.storageState;
      for (const [at, { address }] of scalarValues) {
        if (address.namespace === "pi.entry.label") scalarValues.delete(at);
      }
      return forked;
    },
  }),
  "forks the tip itself where its parent is asked for": ({ fork }) => ({
    fork: (options) => fork(options.scope === "branch" ? { ...options, position: "at" } : options),
  }),
};

function sortedKeys(_key: string, data: unknown): unknown {
  return typeof data === "object" && data !== null && !Array.isArray(data)
    ? Object.fromEntries(Object.entries(data).toSorted())
    : data;
}

const METHODS = [
  "commit",
  "getEntries",
  "getStats",
  "scanValues",
  "readList",
  "scanBranch",
  "scanBranchStructure",
  "scanEntries",
  "scanUsage",
  "fork",
] as const satisfies readonly (keyof Breakable)[];

/** Breaks a memory storage. */
export function inflict(damage: Damage, storage: Storage): void {
  const sound = Object.fromEntries(METHODS.map((name) => [name, Reflect.get(storage, name).bind(storage)]));
  Object.assign(storage, damage(sound as unknown as Breakable));
}
