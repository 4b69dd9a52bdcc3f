import type { Command } from "commander";
import type { ModelUsage } from "../postgres/usage-by-model.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { context } from "./interruption.ts";
import { type Column, formatCost, formatCount, oneLine, print, printJson, printTable } from "./output.ts";
import { addBudget, printBudgets } from "./usage-budget.ts";
import { addDimensions } from "./usage-dimensions.ts";
import { addUsageExport } from "./usage-export.ts";
import { addAfterRestore, addRebuild, addRollUp } from "./usage-sums.ts";

interface UsageOptions extends ConnectionOptions {
  budget?: true;
  json?: true;
}

export function addUsage(program: Command): void {
  const usage = program
    .command("usage")
    .enablePositionalOptions()
    .description("show usage and cost by model")
    .option("--budget", "show what is spent of the tenant's budgets")
    .option("--json", "print JSON; costs are exact decimals")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions usage
  pi-sessions usage --budget
  pi-sessions usage --json`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<UsageOptions>();
      await withRepo(options, async (repo, { database }) => {
        if (options.budget) {
          printBudgets(await database.usage.budget.list(options.tenant, context), options.json === true);
          return;
        }
        const usage = await repo.usageByModel(context);
        if (options.json) printJson(usage);
        else printUsage(usage);
      });
    });
  addBudget(usage);
  addDimensions(usage);
  addRollUp(usage);
  addRebuild(usage);
  addUsageExport(usage);
  addAfterRestore(usage);
}

export function printUsage(usage: readonly ModelUsage[]): void {
  if (usage.length === 0) print("No usage.");
  else printTable(COLUMNS, usage);
}

const COLUMNS: Column<ModelUsage>[] = [
  { head: "PROVIDER", cell: ({ provider }) => oneLine(provider, 30) },
  { head: "MODEL", cell: ({ model }) => oneLine(model, 40) },
  { head: "CALLS", cell: ({ calls }) => formatCount(calls), align: "right" },
  { head: "INPUT", cell: ({ input }) => formatCount(input), align: "right" },
  { head: "OUTPUT", cell: ({ output }) => formatCount(output), align: "right" },
  { head: "CACHE READ", cell: ({ cacheRead }) => formatCount(cacheRead), align: "right" },
  { head: "CACHE WRITE", cell: ({ cacheWrite }) => formatCount(cacheWrite), align: "right" },
  { head: "TOKENS", cell: ({ totalTokens }) => formatCount(totalTokens), align: "right" },
  { head: "COST", cell: ({ cost }) => formatCost(cost), align: "right" },
];
