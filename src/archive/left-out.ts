/** What a file cannot hold. Everything is 0 where nothing is missing. */
export interface LeftOut {
  /** Whether the session has metadata of the application, which no archive has room for: 0 or 1. */
  metadata: number;
  /** Whether the parent session is named by an id, where a version 3 file has room for a path only: 0 or 1. */
  parent: number;
  /** Branches other than the one that the file ends on. Their entries are in the file; their names are not. */
  branches: number;
  /** Other values that no record expresses. */
  values: number;
  /** Elements of lists. */
  listElements: number;
  /** Messages that a compaction retains and that do not stand before it: they are written there once more. */
  repeatedMessages: number;
  /** Entries with usage that no row of the ledger counts, as in a fork. Who reads the file will count it. */
  uncountedUsage: number;
}

export function nothingLeftOut(): LeftOut {
  return {
    metadata: 0,
    parent: 0,
    branches: 0,
    values: 0,
    listElements: 0,
    repeatedMessages: 0,
    uncountedUsage: 0,
  };
}
