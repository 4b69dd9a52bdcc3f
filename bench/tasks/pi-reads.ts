import { STORAGE_READ_BENCHMARK_SCENARIOS } from "@earendil-works/pi-agent-core/harness/session/testing";
import type { TaskOpener } from "./task.ts";

/** pi's read scenarios, by their names. */
export const PI_READS: ReadonlyMap<string, TaskOpener> = new Map(
  STORAGE_READ_BENCHMARK_SCENARIOS.map((scenario) => [
    scenario.name,
    async ({ seeded }) => {
      const { storage, dataset } = seeded();
      return {
        run: () => scenario.run(storage, dataset),
        expected: scenario.expectedResult(dataset),
      };
    },
  ]),
);
