import type { Options } from "../options.ts";
import { OURS } from "../report/compare.ts";
import type { BenchServer } from "../server/bench-server.ts";
import type { StoreName, WorkerConfig } from "../worker/operations.ts";
import { startWorker, type Worker } from "../worker/start-worker.ts";

/** What a store is called in the tables. */
export const NAMES = {
  postgres: OURS,
  sqlite: "SqliteSessionRepo",
  "sqlite-shared": "SqliteSessionRepo, one file",
  jsonl: "JsonlSessionRepo",
  memory: "MemorySessionRepo",
} as const satisfies Partial<Record<StoreName, string>>;

export type SessionStoreName = keyof typeof NAMES;

/** Ours and pi's. */
export const SESSION_STORES = ["postgres", "sqlite", "jsonl", "memory"] as const;

/** What all scenarios of a run share. */
export class Bench implements AsyncDisposable {
  readonly server: BenchServer;
  readonly directory: string;
  readonly options: Options;
  readonly #profileDirectory: string | undefined;
  readonly #workers = new Map<SessionStoreName, Worker>();
  readonly #seeded = new Map<number, Promise<string>>();

  constructor(
    server: BenchServer,
    options: Options,
    { directory, profileDirectory }: { directory: string; profileDirectory: string | undefined },
  ) {
    this.server = server;
    this.options = options;
    this.directory = directory;
    this.#profileDirectory = profileDirectory;
  }

  /** Numbers of entries. */
  get sizes(): readonly number[] {
    return this.options.isQuick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
  }

  get largest(): number {
    return this.sizes.at(-1) as number;
  }

  /** The process that works with a store of sessions in all scenarios. */
  worker(store: SessionStoreName): Worker {
    let worker = this.#workers.get(store);
    if (worker === undefined) {
      const profileDirectory = store === "postgres" ? this.#profileDirectory : undefined;
      worker = startWorker(this.configOf(store), { profileDirectory });
      this.#workers.set(store, worker);
    }
    return worker;
  }

  configOf(store: SessionStoreName): WorkerConfig {
    const { applicationUrl: url, postmasterPid } = this.server;
    return { store, directory: this.directory, ...(store === "postgres" ? { url, postmasterPid } : {}) };
  }

  /** Puts pi's synthetic session into each store, once, and resolves to its group. */
  seeded(entries: number): Promise<string> {
    let group = this.#seeded.get(entries);
    if (group === undefined) {
      group = this.#seed(entries);
      this.#seeded.set(entries, group);
    }
    return group;
  }

  /** Statistics as they are after a while. */
  async settle(): Promise<void> {
    await this.server.query("vacuum (analyze)");
    await this.server.query("checkpoint");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers.values()) await worker[Symbol.asyncDispose]();
  }

  async #seed(entries: number): Promise<string> {
    const group = `entries-${entries}`;
    await Promise.all(SESSION_STORES.map((store) => this.worker(store).call("seed", { group, entries })));
    await this.settle();
    return group;
  }
}
