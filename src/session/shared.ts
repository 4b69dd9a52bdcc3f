import { branchTip } from "../contract/address.ts";
import type { SharedStorage, Storage, StorageTurn } from "../contract/storage.ts";

/** What a session asks of a storage that others may share. */
type Shared = Pick<SharedStorage, "beginTurn" | "scanTip">;

/** In a storage with one writer, nobody can come in between. */
export function sharedOf(storage: Storage): Shared {
  return isShared(storage) ? storage : soleOf(storage);
}

function isShared(storage: Storage): storage is SharedStorage {
  return "beginTurn" in storage;
}

function soleOf(storage: Storage): Shared {
  return {
    beginTurn: () => soleTurn(storage),
    async scanTip(branch, query, context) {
      const tip = await storage.getValue(branchTip(branch), context);
      if (tip === undefined) return undefined;
      return tip.value === null ? [] : storage.scanBranch({ ...query, start: tip.value }, context);
    },
  };
}

function soleTurn(storage: Storage): StorageTurn {
  return {
    getEntries: (ids, context) => storage.getEntries(ids, context),
    getStats: (context) => storage.getStats(context),
    getValue: (address, context) => storage.getValue(address, context),
    scanValues: (prefix, context) => storage.scanValues(prefix, context),
    readList: (address, options, context) => storage.readList(address, options, context),
    scanBranch: (query, context) => storage.scanBranch(query, context),
    recallTip: async (branch, context) => (await storage.getValue(branchTip(branch), context))?.value,
    commit: (writes, context) => storage.commit(writes, context),
  };
}
