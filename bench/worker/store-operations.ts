import { join } from "node:path";
import type { AppendStore } from "../stores/append-store.ts";
import type { SessionStore } from "../stores/session-store.ts";
import { appendFor } from "./append-for.ts";
import type { Operations, WorkerConfig } from "./operations.ts";
import { sessionOperations } from "./session-operations.ts";

/** What this store can do; the modules of the others are not even loaded. */
export async function openOperations(config: WorkerConfig): Promise<Partial<Operations>> {
  switch (config.store) {
    case "langgraph": {
      const { openLangGraphStore } = await import("../stores/langgraph.ts");
      const store = await openLangGraphStore(urlOf(config));
      return { ...appends(store, config), ...threads(store.openThread) };
    }
    case "emmett": {
      const { openEmmettStore } = await import("../stores/emmett.ts");
      return appends(await openEmmettStore(urlOf(config)), config);
    }
    default:
      return sessions(config);
  }
}

async function sessions(config: WorkerConfig): Promise<Partial<Operations>> {
  const store = await openSessionStore(config);
  const { sessionLanes } = await import("../stores/session-lanes.ts");
  return {
    ...appends(sessionLanes(store), config),
    ...sessionOperations(store),
    ...(config.store === "postgres" ? await capturing(store, config) : {}),
  };
}

async function openSessionStore(config: WorkerConfig): Promise<SessionStore> {
  const directory = join(config.directory, config.store);
  switch (config.store) {
    case "postgres":
      return (await import("../stores/postgres.ts")).openPostgresStore(urlOf(config));
    case "sqlite":
      return (await import("../stores/sqlite.ts")).openSqliteStore(directory, { shared: false });
    case "sqlite-shared":
      return (await import("../stores/sqlite.ts")).openSqliteStore(directory, { shared: true });
    case "jsonl":
      return (await import("../stores/jsonl.ts")).openJsonlStore(directory);
    default:
      return (await import("../stores/memory.ts")).openMemoryStore();
  }
}

async function capturing(store: SessionStore, config: WorkerConfig): Promise<Partial<Operations>> {
  const { captureAppends, createSessions } = await import("../pgbench/capture.ts");
  return {
    captureAppends: (input) => captureAppends(store, urlOf(config), input),
    createSessions: (input) => createSessions(store, input),
  };
}

function appends(store: AppendStore, { postmasterPid }: WorkerConfig): Partial<Operations> {
  return { append: (input) => appendFor(store, input, postmasterPid) };
}

/** A thread stands for the task of reading a conversation; its length is the group's name. */
function threads(openThread: (messages: number) => Promise<() => Promise<number>>): Partial<Operations> {
  const threads = new Map<string, Promise<() => Promise<number>>>();
  return {
    async time({ group, times }) {
      let thread = threads.get(group);
      if (thread === undefined) {
        thread = openThread(Number(group));
        threads.set(group, thread);
      }
      const read = await thread;
      const start = performance.now();
      for (let time = 0; time < times; time++) await read();
      return (performance.now() - start) / times;
    },
  };
}

function urlOf({ store, url }: WorkerConfig): string {
  if (url === undefined) throw new Error(`${store} needs a connection string`);
  return url;
}
