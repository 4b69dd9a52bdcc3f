import {
  SESSION_REPO_CATALOG_READ_BENCHMARK_SCENARIOS,
  SESSION_REPO_CATALOG_WRITE_BENCHMARK_SCENARIOS,
} from "@earendil-works/pi-agent-core/harness/session/testing";
import type { TaskOpener } from "./task.ts";
import { TrackingRepo } from "./tracking-repo.ts";

/** pi's scenario on a catalog of closed sessions, which must be all that the group has. */
export const PI_CATALOG_READS: ReadonlyMap<string, TaskOpener> = new Map(
  SESSION_REPO_CATALOG_READ_BENCHMARK_SCENARIOS.map((scenario) => [
    scenario.name,
    async ({ group, addedSessions }) => ({
      run: () => scenario.run(group.repo),
      expected: addedSessions,
    }),
  ]),
);

/** pi's scenarios of single sessions, by their names; each time in an empty repository. */
export const PI_CATALOG_WRITES: ReadonlyMap<string, TaskOpener> = new Map(
  SESSION_REPO_CATALOG_WRITE_BENCHMARK_SCENARIOS.map((scenario) => [
    scenario.name,
    async ({ group }) => {
      const repo = new TrackingRepo(group.repo);
      const isDeletion = scenario.name.startsWith("delete");
      let operation: { run(): Promise<number> } | undefined;
      return {
        async before() {
          operation = await scenario.prepare(repo);
        },
        run: async () => (await operation?.run()) ?? 0,
        async after() {
          if (isDeletion) repo.opened.length = 0;
          await repo.removeOpened();
        },
        expected: scenario.expectedResult,
      };
    },
  ]),
);
