import { BRANCH_TASKS } from "./branch-tasks.ts";
import { PI_CATALOG_READS, PI_CATALOG_WRITES } from "./pi-catalog.ts";
import { PI_READS } from "./pi-reads.ts";
import { PI_WRITES } from "./pi-writes.ts";
import type { TaskOpener } from "./task.ts";

/** By name. */
export const ALL_TASKS: ReadonlyMap<string, TaskOpener> = new Map([
  ...BRANCH_TASKS,
  ...PI_READS,
  ...PI_WRITES,
  ...PI_CATALOG_READS,
  ...PI_CATALOG_WRITES,
]);
