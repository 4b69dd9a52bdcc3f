import { SESSION_REPO_FORK_WRITE_BENCHMARK_SCENARIOS } from "@earendil-works/pi-agent-core/harness/session/testing";
import type { TaskOpener } from "./task.ts";
import { TrackingRepo } from "./tracking-repo.ts";

/** pi's fork scenario: the open session's branch, whole. */
export const PI_FORKS: ReadonlyMap<string, TaskOpener> = new Map(
  SESSION_REPO_FORK_WRITE_BENCHMARK_SCENARIOS.map((scenario) => [
    scenario.name,
    async ({ group, seeded }) => {
      const { dataset, session } = seeded();
      const repo = new TrackingRepo(group.repo);
      return {
        run: () => scenario.run(repo, session.metadata, dataset),
        after: () => repo.removeOpened(),
        expected: scenario.expectedResult(dataset),
      };
    },
  ]),
);
