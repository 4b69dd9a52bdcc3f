import { branchTip } from "../contract/address.ts";
import type { SharedStorage, Storage, StorageTurn } from "../contract/storage.ts";

/** What a mutation reads and commits through. In a storage with one writer, nobody can come in between. */
export function beginTurn(storage: Storage): StorageTurn {
  return isShared(storage) ? storage.beginTurn() : soleTurn(storage);
}

function isShared(storage: Storage): storage is SharedStorage {
  return "beginTurn" in storage;
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
