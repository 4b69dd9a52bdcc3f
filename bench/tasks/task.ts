import type { SessionGroup } from "../stores/session-store.ts";
import type { SeededSession } from "./seeded-session.ts";

/** One thing to do with a store, timed; every store does the same. */
export interface Task {
  /** Not timed. */
  before?(): Promise<void>;
  /** Resolves to a number that tells whether it did what it should. */
  run(): Promise<number>;
  /** Not timed. */
  after?(): Promise<void>;
  readonly expected: number;
}

export interface Fixture {
  readonly group: SessionGroup;
  /** The session that was put into the group before. */
  seeded(): SeededSession;
  /** How many closed sessions were added to the group. */
  readonly addedSessions: number;
}

export type TaskOpener = (fixture: Fixture) => Promise<Task>;
