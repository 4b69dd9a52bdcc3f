import type { Command } from "commander";
import { printMigrations } from "../postgres/migrations.ts";
import { assertSchemaName } from "../postgres/schema-name.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { print, printJson } from "./output.ts";

interface MigrateOptions extends ConnectionOptions {
  print?: true;
  status?: true;
  json?: true;
}

export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .description("create or update the tables")
    .option("--print", "print the SQL instead, for an administrator to run; connects to nothing")
    .option("--status", "only say which migrations the schema has; exit code 1 if some are missing")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions migrate --database-url postgresql://owner@db.example/agents
  pi-sessions migrate --print > migrations.sql
  pi-sessions migrate --status`,
    )
    .action(async (_options, command: Command) => {
      await migrate(command.optsWithGlobals<MigrateOptions>());
    });
}

async function migrate(options: MigrateOptions): Promise<void> {
  if (options.print) {
    assertSchemaName(options.schema);
    process.stdout.write(await printMigrations(options.schema));
    return;
  }
  await using connection = await connect(options);
  const { database } = connection;
  if (options.status) {
    const status = await database.migrationStatus();
    if (options.json) printJson(status);
    else
      for (const [state, names] of Object.entries(status)) print(`${state}: ${names.join(", ") || "none"}`);
    if (status.pending.length + status.unknown.length > 0) process.exitCode = EXIT.foundFailures;
    return;
  }
  const applied = await database.migrate();
  if (options.json) printJson({ applied });
  else print(applied.length === 0 ? "The schema is up to date." : `Applied ${applied.join(", ")}.`);
}
