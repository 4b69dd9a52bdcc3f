import { setTimeout as wait } from "node:timers/promises";
import type { Command } from "commander";
import type { UsageScope } from "../postgres/usage.ts";
import { wholeNumber } from "./arguments.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import { formatCount, print } from "./output.ts";

interface SumsOptions extends ConnectionOptions {
  allTenants?: true;
  every?: number;
}

/** What a command works on. */
export function scopeOf({ allTenants, tenant }: SumsOptions): UsageScope {
  return allTenants ? {} : { tenant };
}

export const ALL_TENANTS = [
  "--all-tenants",
  "all tenants; connect as the role that owns the tables or as an analyst",
] as const;

export function addRollUp(usage: Command): void {
  usage
    .command("roll-up")
    .description("sum what is new in the ledger, so that reports are fast")
    .option("--all-tenants", "all tenants; connect as the role that owns the tables")
    .option("--every <seconds>", "again and again, until it is stopped", wholeNumber)
    .addHelpText(
      "after",
      `
Reports are right without it: they add what is not summed yet.

Examples:
  pi-sessions usage roll-up
  pi-sessions usage roll-up --all-tenants --every 30`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<SumsOptions>();
      await using connection = await connect(options);
      const { usage: ledger } = connection.database;
      for (;;) {
        const rows = await ledger.rollUp(scopeOf(options), context);
        if (rows > 0 || options.every === undefined) print(`${formatCount(rows)} new rows are summed.`);
        if (options.every === undefined) return;
        await wait(options.every * 1000, undefined, { signal: context.abortSignal });
      }
    });
}

export function addRebuild(usage: Command): void {
  usage
    .command("rebuild")
    .description("sum the whole ledger anew")
    .option("--all-tenants", "all tenants; connect as the role that owns the tables")
    .addHelpText("after", "\nExamples:\n  pi-sessions usage rebuild --tenant acme")
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<SumsOptions>();
      await using connection = await connect(options);
      const rows = await connection.database.usage.rebuild(scopeOf(options), context);
      print(`${formatCount(rows)} rows are summed.`);
    });
}

export function addAfterRestore(usage: Command): void {
  usage
    .command("after-restore")
    .description(
      "let exports go on after a dump was restored into another server; connect as the owner of the tables",
    )
    .addHelpText(
      "after",
      "\nRun it once, before programs write again.\n\nExamples:\n  pi-sessions usage after-restore",
    )
    .action(async (_options, command: Command) => {
      await using connection = await connect(command.optsWithGlobals<ConnectionOptions>());
      await connection.database.usage.afterRestore(context);
      print("New rows of the ledger come after all that are there.");
    });
}
