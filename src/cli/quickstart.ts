import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { DEFAULT_TENANT } from "../postgres/find-tenant.ts";
import { DEFAULT_SCHEMA } from "../postgres/schema-name.ts";
import { type ConnectionOptions, connect, databaseSource } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { importWithProgress } from "./import.ts";
import { isComplete, printSummary } from "./import-summary.ts";
import { context } from "./interruption.ts";
import { printSessions } from "./list.ts";
import { heading, print, visible } from "./output.ts";
import { printReport } from "./usage-table.ts";

const SAMPLES = fileURLToPath(new URL("../../examples/archives", import.meta.url));

export function addQuickstart(program: Command): void {
  program
    .command("quickstart")
    .description("migrate, import archives, and show what is in them")
    .argument("[path...]", "files or directories (default: the sample archives of the package)")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions --data-dir .data quickstart ~/.pi/agent/sessions`,
    )
    .action(async (paths: string[], _options, command: Command) => {
      await quickstart(paths.length === 0 ? [SAMPLES] : paths, command.optsWithGlobals<ConnectionOptions>());
    });
}

async function quickstart(paths: string[], options: ConnectionOptions): Promise<void> {
  await using connection = await connect(options);
  const { database, connectionString } = connection;
  await database.migrate();
  const repo = await database.repo(options.tenant);
  const summary = await importWithProgress(repo, paths, {});
  const { sessions, next } = await repo.page({}, context);
  print(heading("Sessions"));
  printSessions(sessions);
  if (next !== undefined) print(`There are more: ${commandOf(options)} list --all`);
  print(`\n${heading("Usage by model")}`);
  printReport(await database.usage.report({ tenant: options.tenant, by: ["provider", "model"] }, context));
  print(`\n${heading("Import")}`);
  printSummary(summary);
  print(`\n${heading("Next")}`);
  for (const line of nextSteps(sessions[0]?.metadata.id, options, connectionString))
    print(line && `  ${line}`);
  if (!isComplete(summary)) process.exitCode = EXIT.foundFailures;
}

function nextSteps(id: string | undefined, options: ConnectionOptions, connectionString: string): string[] {
  const command = commandOf(options);
  return [
    ...(id === undefined ? [] : [`${command} show ${quoted(id)}`, `${command} show ${quoted(id)} --context`]),
    `${command} list`,
    `${command} usage`,
    ...(databaseSource(options).kind === "url"
      ? []
      : [
          "",
          "The embedded server runs only while a command does. For other programs keep one running:",
          `${command} serve`,
          "and, while it runs, in a second terminal:",
          `psql ${connectionString}`,
        ]),
  ];
}

/** The program by the name that it was run by, with the options that lead to the same sessions. */
function commandOf({ databaseUrl, dataDir, schema, tenant }: ConnectionOptions): string {
  return [
    // A script that runs this program says by what name.
    process.env["PI_SESSIONS_COMMAND"] ?? "pi-sessions",
    ...(databaseUrl === undefined ? [] : ['--database-url "$DATABASE_URL"']),
    ...(databaseUrl !== undefined || dataDir === undefined
      ? []
      : [`--data-dir ${quoted(relative("", dataDir) || ".")}`]),
    ...(schema === DEFAULT_SCHEMA ? [] : [`--schema ${schema}`]),
    ...(tenant === DEFAULT_TENANT ? [] : [`--tenant ${quoted(tenant)}`]),
  ].join(" ");
}

/** As one word of a shell. */
function quoted(word: string): string {
  const text = visible(word);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
