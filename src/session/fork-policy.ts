/**
 * What a fork takes along of the current state, by namespace. Entries are copied by path or whole,
 * the ledger never: a fork starts with a zero ledger.
 */
export const FORK_POLICY = {
  /** Copied always. */
  name: "pi.session.name",
  /** Copied with the entry that it labels. */
  label: "pi.entry.label",
  /** A branch fork takes its branch only, and moves its tip. */
  tip: "pi.branch.tip",
  laneConfig: "pi.lane.config",
  /** Copied as idle: the fork has no running operation. */
  laneState: "pi.lane.state",
  /** Belongs to what happened in the source. */
  dropped: "pi.result",
  /** Belongs to what is running in the source. */
  droppedPrefixes: ["pi.op.", "pi.pending."],
  /** Anything else below this is unknown here, so a fork that might lose or leak it is refused. */
  reserved: "pi",
} as const;
