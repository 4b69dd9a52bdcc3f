import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { SESSION_REPO_FORK_WRITE_BENCHMARK_SCENARIOS } from "@earendil-works/pi-agent-core/harness/session/testing";
import type { SessionGroup } from "../stores/session-store.ts";
import type { SeededSession } from "./seeded-session.ts";
import { TrackingRepo } from "./tracking-repo.ts";

const SCENARIOS = new Map(
  SESSION_REPO_FORK_WRITE_BENCHMARK_SCENARIOS.map((scenario) => [scenario.name, scenario]),
);

/** The names of pi's fork scenarios: the open session's branch, whole. */
export const PI_FORKS: readonly string[] = [...SCENARIOS.keys()];

/** Milliseconds. */
export interface ForkTimes {
  readonly fork: number;
  /** Of the fork, which is as large as the session that it was made of, and closed. */
  readonly deletion: number;
}

export async function forkAndDelete(
  { repo }: SessionGroup,
  { dataset, session }: SeededSession,
  name: string,
): Promise<ForkTimes> {
  const scenario = SCENARIOS.get(name);
  if (scenario === undefined) throw new Error(`pi has no scenario "${name}"`);
  const tracking = new TrackingRepo(repo);
  const start = performance.now();
  const copied = await scenario.run(tracking, session.metadata, dataset);
  const fork = performance.now() - start;
  if (copied !== scenario.expectedResult(dataset)) throw new Error(`"${name}" did not fork the session`);
  const [metadata] = await tracking.closeOpened();
  if (metadata === undefined) throw new Error(`"${name}" opened no fork`);
  const closed = performance.now();
  await repo.delete(metadata, BACKGROUND_CONTEXT);
  return { fork, deletion: performance.now() - closed };
}
