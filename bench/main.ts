/**
 * Compares this package with what people would use otherwise, all in one run on one server, and prints the tables.
 * Run it with `npm --prefix bench start`, which first installs what is missing; see options.ts for what can be added
 * after `--`.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createRunDirectory } from "./directory.ts";
import { readOptions } from "./options.ts";
import { goalsOf } from "./report/goals.ts";
import { describeMachine } from "./report/machine.ts";
import { markdownOf } from "./report/markdown.ts";
import type { Results } from "./report/results.ts";
import { SCENARIO_NAMES, SCENARIOS, USUAL_SCENARIOS } from "./scenarios/all-scenarios.ts";
import { Bench } from "./scenarios/bench.ts";
import type { Findings } from "./scenarios/scenario.ts";
import { startBenchServer } from "./server/bench-server.ts";

const RESULTS = fileURLToPath(new URL("results/", import.meta.url));

const options = readOptions({ known: SCENARIO_NAMES, usual: USUAL_SCENARIOS });
const startedAt = new Date();
await mkdir(RESULTS, { recursive: true });
const directory = await createRunDirectory();
try {
  const results = await run();
  const file = `${RESULTS}${startedAt.toISOString().replaceAll(":", "-")}.json`;
  await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
  console.log(markdownOf(results));
  console.log(`All samples: ${file}`);
} finally {
  await rm(directory, { recursive: true, force: true });
}

async function run(): Promise<Results> {
  await using server = await startBenchServer(directory);
  const machine = await describeMachine(server, directory);
  const profileDirectory = options.isProfiled ? RESULTS : undefined;
  await using bench = new Bench(server, options, { directory, profileDirectory });
  const findings: Findings[] = [];
  for (const name of options.only) {
    const start = performance.now();
    findings.push(await SCENARIOS[name](bench));
    console.error(`${name}: ${((performance.now() - start) / 1_000).toFixed(0)} s`);
  }
  const lines = findings.flatMap((found) => found.lines ?? []);
  return {
    startedAt: startedAt.toISOString(),
    minutes: (Date.now() - startedAt.getTime()) / 60_000,
    isQuick: options.isQuick,
    machine,
    notes: findings.flatMap((found) => found.notes ?? []),
    lines,
    growth: findings.flatMap((found) => found.growth ?? []),
    appendCosts: findings.flatMap((found) => found.appendCosts ?? []),
    goals: goalsOf(lines),
  };
}
