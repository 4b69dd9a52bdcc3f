#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { PiSessionError } from "../contract/errors.ts";
import { toldError } from "./advice.ts";
import { addConnectionOptions } from "./connection.ts";
import { addDelete } from "./delete.ts";
import { addDoctor } from "./doctor.ts";
import { EXIT, EXIT_HELP, exitCodeOf } from "./exit-codes.ts";
import { addExport } from "./export.ts";
import { addImport } from "./import.ts";
import { endBy, heedSignals, interruptedBy } from "./interruption.ts";
import { addList } from "./list.ts";
import { addMigrate } from "./migrate.ts";
import { tell } from "./output.ts";
import { addQuickstart } from "./quickstart.ts";
import { addServe } from "./serve.ts";
import { addShow } from "./show.ts";
import { addTenant } from "./tenant.ts";
import { addUsage } from "./usage.ts";
import { addVerify } from "./verify.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const program = new Command("pi-sessions")
  .description("Sessions of AI agents in PostgreSQL.")
  .version(version)
  .option("--debug", "print the stack and the cause of errors")
  .configureHelp({ showGlobalOptions: true })
  .exitOverride()
  .addHelpText(
    "after",
    `${EXIT_HELP}

Examples:
  pi-sessions import ~/.pi/agent/sessions
  pi-sessions list
  pi-sessions help show`,
  );
addConnectionOptions(program);
for (const add of [
  addMigrate,
  addImport,
  addExport,
  addList,
  addShow,
  addUsage,
  addDelete,
  addTenant,
  addVerify,
  addDoctor,
  addQuickstart,
  addServe,
])
  add(program);
for (const command of withSubcommands(program.commands)) {
  command.exitOverride().configureHelp({ showGlobalOptions: true }).addHelpText("after", EXIT_HELP);
}

function withSubcommands(commands: readonly Command[]): Command[] {
  return commands.flatMap((command) => [command, ...withSubcommands(command.commands)]);
}

// A reader that stops early, as `head` does, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit();
});
process.stderr.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});
heedSignals();

try {
  await program.parseAsync();
} catch (error) {
  const signal = interruptedBy();
  if (signal === undefined) process.exitCode = report(error);
  else endBy(signal);
}

/** Tells the error, and returns the exit code that it means. */
function report(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has printed its own errors, but not those of arguments that only the database can judge.
    if (error instanceof InvalidArgumentError) tell(`error: ${error.message}`);
    return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  }
  if (program.opts<{ debug?: true }>().debug) console.error(error);
  if (!(error instanceof PiSessionError)) {
    tell(`error: ${error instanceof Error ? error.message : String(error)} (--debug shows more)`);
    return EXIT.foundFailures;
  }
  tell(`error: ${toldError(error)}`);
  return exitCodeOf(error.code);
}
