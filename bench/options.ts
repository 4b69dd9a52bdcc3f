import { parseArgs } from "node:util";
import type { ScenarioName } from "./scenarios/all-scenarios.ts";

export interface Options {
  /** Small sizes and few rounds: whether everything works, in less than a minute. */
  readonly isQuick: boolean;
  readonly only: readonly ScenarioName[];
  /** Writes a CPU profile of the process that runs this package to the results. */
  readonly isProfiled: boolean;
}

const USAGE = `Usage: npm --prefix bench start -- [--quick] [--profile] [--only=append,read,…]`;

export function readOptions(
  args: readonly string[],
  { known, usual }: { known: readonly ScenarioName[]; usual: readonly ScenarioName[] },
): Options {
  const { values } = parseArgs({
    args: [...args],
    options: { quick: { type: "boolean" }, profile: { type: "boolean" }, only: { type: "string" } },
  });
  const only = values.only?.split(",") ?? usual;
  const unknown = only.find((name) => !known.includes(name as ScenarioName));
  if (unknown !== undefined) {
    throw new Error(`There is no scenario "${unknown}": there are ${known.join(", ")}.\n${USAGE}`);
  }
  return {
    isQuick: values.quick === true,
    isProfiled: values.profile === true,
    only: only as readonly ScenarioName[],
  };
}
