/** The long form of chaos.test.ts. Run it as scripts/chaos. */
import { randomInt } from "node:crypto";
import { Command, InvalidArgumentError } from "commander";
import { wholeNumber } from "../../src/cli/arguments.ts";
import { runChaos } from "./chaos.ts";

/** 1 stands for a broken promise. */
const WRONG_USAGE = 2;

const options = new Command("scripts/chaos")
  .description(
    "Writes to shared sessions from many processes while connections are cut, backends killed and the server crashed, " +
      "and compares what the writers were told with what is stored. Ends with 1 if a promise was broken.",
  )
  .option("--minutes <minutes>", "how long, not counting the comparison", positive, 10)
  .option("--seed <number>", "of all random choices; by default another one each time", wholeNumber)
  .option("--writers <count>", "processes that write", counted, 8)
  .option("--sessions <count>", "sessions that they share", counted, 3)
  .option("--postgres-bin <folder>", "programs of another PostgreSQL than the embedded one")
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : WRONG_USAGE))
  .parse()
  .opts<{ minutes: number; seed?: number; writers: number; sessions: number; postgresBin?: string }>();

const { minutes, writers, sessions, seed = randomInt(2 ** 31) } = options;
console.log(`${minutes} minutes with --seed ${seed}`);
const { counts, violations } = await runChaos({
  seed,
  milliseconds: minutes * 60_000,
  serverCrashes: Math.max(2, Math.round(minutes * 1.5)),
  writerKills: Math.max(2, Math.round(minutes * 2)),
  writers,
  sessions,
  ...(options.postgresBin === undefined ? {} : { binaries: options.postgresBin }),
  onProgress: (line) => console.log(line),
});
for (const [what, count] of Object.entries(counts)) console.log(`${what.padEnd(16)} ${count}`);
for (const violation of violations) console.log(`VIOLATION ${violation}`);
console.log(violations.length === 0 ? "Every promise was kept." : `Broken with --seed ${seed}.`);
process.exitCode = violations.length === 0 ? 0 : 1;

function positive(text: string): number {
  const number = Number(text);
  if (text === "" || !Number.isFinite(number) || number <= 0) {
    throw new InvalidArgumentError("Pass a number above 0.");
  }
  return number;
}

function counted(text: string): number {
  const count = wholeNumber(text);
  if (count === 0) throw new InvalidArgumentError("Pass a whole number from 1 on.");
  return count;
}
