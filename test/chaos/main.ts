/** The long form of chaos.test.ts. Run it as scripts/chaos. */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { runChaos } from "./chaos.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string" },
    writers: { type: "string", default: "8" },
    sessions: { type: "string", default: "3" },
    "postgres-bin": { type: "string" },
  },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed ?? randomInt(2 ** 31));
console.log(`${minutes} minutes with --seed ${seed}`);
const { counts, violations } = await runChaos({
  seed,
  milliseconds: minutes * 60_000,
  serverCrashes: Math.max(2, Math.round(minutes * 1.5)),
  writerKills: Math.max(2, Math.round(minutes * 2)),
  writers: Number(values.writers),
  sessions: Number(values.sessions),
  ...(values["postgres-bin"] === undefined ? {} : { binaries: values["postgres-bin"] }),
  onProgress: (line) => console.log(line),
});
for (const [what, count] of Object.entries(counts)) console.log(`${what.padEnd(16)} ${count}`);
for (const violation of violations) console.log(`VIOLATION ${violation}`);
console.log(violations.length === 0 ? "Every promise was kept." : `Broken with --seed ${seed}.`);
process.exitCode = violations.length === 0 ? 0 : 1;
