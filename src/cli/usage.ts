import { type Command, Option } from "commander";
import { usageCsv } from "../usage/csv.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import { printJson } from "./output.ts";
import { resolveSessionId } from "./session-id.ts";
import { addBudget, printBudgets } from "./usage-budget.ts";
import { addDimensions } from "./usage-dimensions.ts";
import { addUsageExport } from "./usage-export.ts";
import { addReportOptions, REPORT_HELP, type ReportOptions, reportOptions } from "./usage-options.ts";
import { ALL_TENANTS, addAfterRestore, addRebuild, addRollUp } from "./usage-sums.ts";
import { printReport } from "./usage-table.ts";

interface UsageOptions extends ConnectionOptions, ReportOptions {
  budget?: true;
  json?: true;
  csv?: true;
}

export function addUsage(program: Command): void {
  const usage = program
    .command("usage")
    .enablePositionalOptions()
    .description("show what was spent: by whom, when and on which model")
    .option(...ALL_TENANTS);
  addReportOptions(usage);
  usage
    .option("--budget", "show what is spent of the tenant's budgets instead")
    .option("--json", "print JSON; costs are exact decimals")
    .addOption(new Option("--csv", "print CSV; costs are exact decimals").conflicts("json"))
    .addHelpText(
      "after",
      `${REPORT_HELP}

Examples:
  pi-sessions usage
  pi-sessions usage --by tenant,model --from 2026-11-01 --tz Europe/Berlin --all-tenants
  pi-sessions usage --by month --from 2026-11 --to 2026-12 --compare
  pi-sessions usage --by session --where model=claude-sonnet-4-5 --top 10 --order calls
  pi-sessions usage --by day --session 019ad920 --csv > november.csv
  pi-sessions usage --budget`,
    )
    .action(async (_options, command: Command) => {
      await showUsage(command.optsWithGlobals<UsageOptions>());
    });
  addBudget(usage);
  addDimensions(usage);
  addRollUp(usage);
  addRebuild(usage);
  addUsageExport(usage);
  addAfterRestore(usage);
}

async function showUsage(options: UsageOptions): Promise<void> {
  await using connection = await connect(options);
  const { database } = connection;
  if (options.budget) {
    printBudgets(await database.usage.budget.list(options.tenant, context), options.json === true);
    return;
  }
  const asked = reportOptions(options);
  if (options.session !== undefined) {
    const session = await resolveSessionId(await database.repo(options.tenant), options.session);
    asked.where = { ...asked.where, session };
  }
  const report = await database.usage.report(asked, context);
  if (options.json) printJson(report);
  else if (options.csv) process.stdout.write(usageCsv(report));
  else printReport(report);
}
