import { type Command, Option } from "commander";
import type { BudgetPeriod, BudgetStatus } from "../postgres/budgets.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import { type Column, formatCost, formatTime, print, printJson, printTable } from "./output.ts";

interface BudgetOptions extends ConnectionOptions {
  period: BudgetPeriod;
  amount: string;
  tz?: string;
  hard?: true;
  json?: true;
}

export function addBudget(usage: Command): void {
  const budget = usage
    .command("budget")
    .description("say what a tenant may spend; `usage --budget` shows what is spent of it")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions usage budget set --tenant acme --period month --amount 250 --tz Europe/Berlin
  pi-sessions usage budget set --tenant acme --period day --amount 20 --hard
  pi-sessions usage budget remove --tenant acme --period day
  pi-sessions usage --tenant acme --budget`,
    );
  budget
    .command("set")
    .description("set the budget of a period, or replace it")
    .addOption(period())
    .requiredOption("--amount <dollars>", "US dollars")
    .option("--tz <zone>", "IANA time zone in which the period begins", "UTC")
    .option("--hard", "refuse new work once it is spent; what was spent is recorded in any case")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExamples:\n  pi-sessions usage budget set --period month --amount 250 --hard")
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<BudgetOptions>();
      const { tenant, amount, tz = "UTC", hard = false } = options;
      await using connection = await connect(options);
      const { budget: budgets } = connection.database.usage;
      await budgets.set(tenant, { period: options.period, amount, timeZone: tz, isHard: hard }, context);
      printBudgets(await budgets.list(tenant, context), options.json === true);
    });
  budget
    .command("remove")
    .description("remove the budget of a period")
    .addOption(period())
    .option("--json", "print JSON")
    .addHelpText("after", "\nExamples:\n  pi-sessions usage budget remove --period month")
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<BudgetOptions>();
      await using connection = await connect(options);
      const { budget: budgets } = connection.database.usage;
      await budgets.remove(options.tenant, options.period, context);
      printBudgets(await budgets.list(options.tenant, context), options.json === true);
    });
}

function period(): Option {
  return new Option("--period <period>", "what it is for")
    .choices(["day", "week", "month"])
    .makeOptionMandatory();
}

export function printBudgets(budgets: readonly BudgetStatus[], asJson: boolean): void {
  if (asJson) printJson(budgets);
  else if (budgets.length === 0) print("No budgets.");
  else printTable(COLUMNS, budgets);
}

const COLUMNS: Column<BudgetStatus>[] = [
  { head: "PERIOD", cell: ({ period: name }) => name },
  { head: "FROM", cell: ({ from }) => formatTime(from) },
  { head: "TO", cell: ({ to }) => formatTime(to) },
  { head: "KIND", cell: ({ isHard }) => (isHard ? "hard" : "soft") },
  { head: "BUDGET", cell: ({ amount }) => formatCost(amount), align: "right" },
  { head: "SPENT", cell: ({ spent }) => formatCost(spent), align: "right" },
  { head: "PROJECTED", cell: ({ projected }) => formatCost(projected), align: "right" },
  { head: "REMAINING", cell: ({ remaining }) => formatCost(remaining), align: "right" },
];
