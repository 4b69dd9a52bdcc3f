import type { Storage } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { STORAGE_WRITE_BENCHMARK_SCENARIOS } from "@earendil-works/pi-agent-core/harness/session/testing";
import type { TaskOpener } from "./task.ts";
import { TrackingRepo } from "./tracking-repo.ts";

/** pi's write scenarios, by their names; each time in a new session. */
export const PI_WRITES: ReadonlyMap<string, TaskOpener> = new Map(
  STORAGE_WRITE_BENCHMARK_SCENARIOS.map((scenario) => [
    scenario.name,
    async ({ group }) => {
      const repo = new TrackingRepo(group.repo);
      let storage: Storage | undefined;
      return {
        async before() {
          storage = await group.storageOf(await repo.create({}, BACKGROUND_CONTEXT));
          await scenario.prepare?.(storage);
        },
        run: () => scenario.run(storage as Storage),
        after: () => repo.removeOpened(),
        expected: scenario.writeCount,
      };
    },
  ]),
);
