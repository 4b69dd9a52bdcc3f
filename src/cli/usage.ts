import { type Command, Option } from "commander";
import type { UsageReport } from "../postgres/usage-report.ts";
import { USAGE_MEASURES, type UsageKey, type UsageMeasure } from "../postgres/usage-report-options.ts";
import { usageCsv } from "../usage/csv.ts";
import { usageHtml } from "../usage/html/usage-html.ts";
import { usageParquet } from "../usage/parquet.ts";
import { RATIOS } from "../usage/time-series.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import { printJson, tell } from "./output.ts";
import { assertFree, writeWhole } from "./output-file.ts";
import { resolveSessionId } from "./session-id.ts";
import { addBudget, printBudgets } from "./usage-budget.ts";
import { printChart } from "./usage-chart.ts";
import { addDimensions } from "./usage-dimensions.ts";
import { addUsageExport } from "./usage-export.ts";
import { addReportOptions, REPORT_HELP, type ReportOptions, reportOptions } from "./usage-options.ts";
import { ALL_TENANTS, addAfterRestore, addRebuild, addRollUp } from "./usage-sums.ts";
import { printReport } from "./usage-table.ts";

interface UsageOptions extends ConnectionOptions, ReportOptions {
  budget?: true;
  json?: true;
  csv?: true;
  chart?: UsageMeasure | true;
  parquet?: string;
  html?: string;
  force?: true;
}

/** A report is printed, drawn or written in one way. */
const WAYS = ["json", "csv", "chart", "parquet", "html", "budget"];
const withoutOther = (way: string) => WAYS.filter((other) => other !== way);

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
    .addOption(new Option("--csv", "print CSV; costs are exact decimals").conflicts(["json", "budget"]))
    .addOption(
      new Option("--chart [column]", "draw a column along time; default: cost, by day,model")
        .choices(USAGE_MEASURES)
        .conflicts(withoutOther("chart")),
    )
    .addOption(new Option("--parquet <file>", "write a Parquet file").conflicts(withoutOther("parquet")))
    .addOption(
      new Option("--html <file>", "write a page with charts, in a single file").conflicts(
        withoutOther("html"),
      ),
    )
    .option("--force", "replace the file if there is one")
    .addHelpText(
      "after",
      `${REPORT_HELP}

Examples:
  pi-sessions usage
  pi-sessions usage --by tenant,model --from 2026-11-01 --tz Europe/Berlin --all-tenants
  pi-sessions usage --by month --from 2026-11 --to 2026-12 --compare
  pi-sessions usage --by session --where model=claude-sonnet-4-5 --top 10 --order calls
  pi-sessions usage --by day --session 019ad920 --csv > november.csv
  pi-sessions usage --by week,model --chart calls
  pi-sessions usage --from 2026-11 --to 2026-12 --html november.html
  pi-sessions usage --by day,session --parquet usage.parquet
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
  const { html, parquet, force = false } = options;
  const path = html ?? parquet;
  const file = path === undefined ? undefined : { path, force };
  if (file !== undefined) await assertFree(file);
  await using connection = await connect(options);
  const { database } = connection;
  const { usage } = database;
  if (options.budget) {
    printBudgets(await usage.budget.list(options.tenant, context), options.json === true);
    return;
  }
  const asked = reportOptions(options);
  if (options.session !== undefined) {
    const session = await resolveSessionId(await database.repo(options.tenant), options.session);
    asked.where = { ...asked.where, session };
  }
  if (file === undefined) {
    if (options.chart !== undefined) asked.by = options.by ?? chartKeys(options.chart);
    printUsage(await usage.report(asked, context), options);
    return;
  }
  const data =
    html === undefined
      ? await usageParquet(await usage.report(asked, context))
      : await usageHtml(usage, asked, context);
  await writeWhole(file, data);
  tell(`Wrote ${file.path}.`);
}

/** Of a chart without `--by`. */
function chartKeys(chart: UsageMeasure | true): UsageKey[] {
  return chart !== true && RATIOS.includes(chart) ? ["day"] : ["day", "model"];
}

function printUsage(report: UsageReport, { json, csv, chart }: UsageOptions): void {
  if (json) printJson(report);
  else if (csv) process.stdout.write(usageCsv(report));
  else if (chart !== undefined) printChart(report, chart === true ? "cost" : chart);
  else printReport(report);
}
