import { measureAppends } from "./append.ts";
import { measureCatalog } from "./catalog.ts";
import { measureContext } from "./context.ts";
import { measureForks } from "./fork.ts";
import { measureImport } from "./import.ts";
import { measureMemory } from "./memory.ts";
import { measureReads } from "./read.ts";
import type { Scenario } from "./scenario.ts";
import { measureUsage } from "./usage.ts";
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
  import: measureImport,
  usage: measureUsage,
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

/** Only when it is asked for: ten million rows take their time. */
const ON_DEMAND: ReadonlySet<ScenarioName> = new Set(["usage"]);

export const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[];

export const USUAL_SCENARIOS = SCENARIO_NAMES.filter((name) => !ON_DEMAND.has(name));
