import type { ForkTimes } from "../tasks/pi-forks.ts";

/** What a worker can be asked for. Input and output travel between processes. */
export interface Operations {
  /** Appends for a while on so many connections at once. */
  append(input: AppendInput): Promise<AppendSample>;
  /** Puts pi's synthetic session of so many entries into a group, and keeps it open. */
  seed(input: { group: string; entries: number }): Promise<void>;
  /** Adds a compaction to the seeded session, and messages behind it. */
  compact(input: { group: string; messages: number }): Promise<void>;
  /** Adds closed empty sessions. */
  addSessions(input: { group: string; count: number }): Promise<void>;
  /** Closes the seeded session of a group. */
  close(input: { group: string }): Promise<void>;
  /** Does a task so many times in a row, and resolves to the milliseconds of one time. */
  time(input: TimeInput): Promise<number>;
  /** Forks the seeded session as one of pi's scenarios does, and deletes the fork. */
  forkAndDelete(input: { group: string; scenario: string }): Promise<ForkTimes>;
  /** What opening a session and reading its last entries costs in memory. */
  footprint(input: FootprintInput): Promise<Footprint>;
  /** What is sent for the first two appends to a session of so many messages. */
  captureAppends(input: { messages: number }): Promise<CapturedAppend[]>;
  /** New sessions of so many messages; with the tip that is given. */
  createSessions(input: { ids: number[]; messages: number; lastId?: string }): Promise<void>;
}

export interface AppendInput {
  width: number;
  forMs: number;
  /** In each conversation, before. */
  messages: number;
}

export interface AppendSample {
  appends: number;
  ms: number;
  /** How often the server said to try again. */
  repeats: number;
  /** How often that reached the caller. */
  refusals: number;
  /** Of the worker. */
  clientCpuMs: number;
  /** Of the database server, where there is one and the system tells. */
  serverCpuMs?: number;
}

export interface TimeInput {
  task: string;
  group: string;
  times: number;
}

export interface FootprintInput {
  group: string;
  entries: number;
  /** The store keeps nothing, so the session has to be made here. */
  isVolatile: boolean;
}

/** Bytes more than before, after garbage collection. */
export interface Footprint {
  heap: number;
  rss: number;
}

export interface CapturedAppend {
  entryId: string;
  parentId: string;
  sessionId: string;
  statements: { sql: string; parameters?: (string | null)[] }[];
}

/** How a worker is started. */
export interface WorkerConfig {
  store: StoreName;
  /** For files. */
  directory: string;
  url?: string;
  postmasterPid?: number;
}

export type StoreName = "postgres" | "sqlite" | "sqlite-shared" | "jsonl" | "memory" | "langgraph" | "emmett";

export interface Request {
  readonly id: number;
  readonly operation: keyof Operations;
  readonly input: unknown;
}

export type Answer = { readonly id: number } & ({ readonly output: unknown } | { readonly error: string });
