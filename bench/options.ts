import { Command, InvalidArgumentError, Option } from "commander";
import type { ScenarioName } from "./scenarios/all-scenarios.ts";

export interface Options {
  /** Small sizes and few rounds: whether everything works, in less than a minute. */
  readonly isQuick: boolean;
  readonly only: readonly ScenarioName[];
  /** Writes a CPU profile of the process that runs this package to the results. */
  readonly isProfiled: boolean;
}

/** Of the command line; prints help, or what is wrong with it, and ends the process. */
export function readOptions({
  known,
  usual,
}: {
  known: readonly ScenarioName[];
  usual: readonly ScenarioName[];
}): Options {
  const scenarios = (text: string) => text.split(",").map((name) => scenarioOf(name, known));
  const { quick, profile, only } = new Command("npm --prefix bench start --")
    .description("Compares pi-session-postgres with what people would use otherwise, and prints the tables.")
    .option("--quick", "small sizes and few rounds: whether everything works, in less than a minute")
    .option("--profile", "write a CPU profile of the process that runs the package to bench/results")
    .addOption(
      new Option("--only <scenarios>", `some of ${known.join(",")}`)
        .argParser(scenarios)
        .default(usual, usual.join(",")),
    )
    .parse()
    .opts<{ quick?: true; profile?: true; only: readonly ScenarioName[] }>();
  return { isQuick: quick === true, only, isProfiled: profile === true };
}

function scenarioOf(name: string, known: readonly ScenarioName[]): ScenarioName {
  const found = known.find((scenario) => scenario === name);
  if (found === undefined) {
    throw new InvalidArgumentError(`There is no scenario "${name}": there are ${known.join(", ")}.`);
  }
  return found;
}
