import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { BACKGROUND_CONTEXT as context } from "../contract/context.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { importWithProgress, printReport } from "./import.ts";
import { printSessions } from "./list.ts";
import { heading, print } from "./output.ts";
import { printUsage } from "./usage.ts";

const SAMPLES = fileURLToPath(new URL("../../examples/archives", import.meta.url));

export function addQuickstart(program: Command): void {
  program
    .command("quickstart")
    .description("migrate, import archives, and show what is in them")
    .argument("[path...]", "files or directories (default: the samples of a checkout)", [SAMPLES])
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions --data-dir .data quickstart ~/.pi/agent/sessions`,
    )
    .action(async (paths: string[], _options, command: Command) => {
      await quickstart(paths, command.optsWithGlobals<ConnectionOptions>());
    });
}

async function quickstart(paths: string[], options: ConnectionOptions): Promise<void> {
  await using connection = await connect(options);
  const { database, connectionString } = connection;
  await database.migrate();
  const repo = await database.repo(options.tenant);
  const report = await importWithProgress(repo, paths, { dryRun: false });
  const summaries = await repo.summarize(undefined, context);
  print(heading("Sessions"));
  printSessions(summaries);
  print(`\n${heading("Usage by model")}`);
  printUsage(await repo.usageByModel(context));
  print(`\n${heading("Import")}`);
  printReport(report);
  print(`\n${heading("Next")}`);
  for (const line of nextSteps(summaries[0]?.metadata.id, options, connectionString)) print(`  ${line}`);
  if (report.failed > 0) process.exitCode = EXIT.foundFailures;
}

function nextSteps(id: string | undefined, options: ConnectionOptions, connectionString: string): string[] {
  const { dataDir } = options;
  // A script that runs this program says by what name.
  const name = process.env["PI_SESSIONS_COMMAND"] ?? "pi-sessions";
  const command = dataDir === undefined ? name : `${name} --data-dir ${relative("", dataDir)}`;
  return [
    ...(id === undefined ? [] : [`${command} show ${id}`, `${command} show ${id} --context`]),
    `${command} list`,
    `${command} usage`,
    ...(dataDir === undefined
      ? []
      : [
          "",
          "The embedded server runs only while a command does. To have it in other programs, keep one running:",
          `${command} serve`,
          `psql ${connectionString}`,
        ]),
  ];
}
