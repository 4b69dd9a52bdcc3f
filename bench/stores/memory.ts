import { MemorySessionRepo, type SessionRepo } from "@earendil-works/pi-agent-core/harness/session";
import {
  SESSION_REPO_CATALOG_BENCHMARK_DATASETS,
  seedSessionRepoCatalogBenchmark,
} from "@earendil-works/pi-agent-core/harness/session/testing";
import { groupsOf, type SessionStore, storageInside } from "./session-store.ts";

/** pi's `MemorySessionRepo`. */
export function openMemoryStore(): SessionStore {
  return {
    group: groupsOf(async () => {
      const repo = new MemorySessionRepo();
      return {
        repo,
        storageOf: async (session) => storageInside(session),
        addSessions: (count) => addOneByOne(repo, count),
      };
    }),
    close: async () => {},
  };
}

async function addOneByOne(repo: SessionRepo, sessionCount: number): Promise<void> {
  const name = SESSION_REPO_CATALOG_BENCHMARK_DATASETS[0]?.name ?? "catalog";
  await seedSessionRepoCatalogBenchmark(repo, { name, sessionCount });
}
