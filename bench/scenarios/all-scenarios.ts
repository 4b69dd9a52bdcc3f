import { measureAppends } from "./append.ts";
import { measureCatalog } from "./catalog.ts";
import { measureContext } from "./context.ts";
import { measureForks } from "./fork.ts";
import { measureMemory } from "./memory.ts";
import { measureReads } from "./read.ts";
import type { Scenario } from "./scenario.ts";
import { measureWrites } from "./write.ts";

/** In the order in which they run: what leaves much behind comes late. */
export const SCENARIOS = {
  append: measureAppends,
  read: measureReads,
  write: measureWrites,
  catalog: measureCatalog,
  fork: measureForks,
  context: measureContext,
  memory: measureMemory,
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

export const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[];
