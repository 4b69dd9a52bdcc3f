import { type Command, Option } from "commander";
import { printMigrations } from "../postgres/migrations.ts";
import { assertSchemaName } from "../postgres/schema-name.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { EXIT } from "./exit-codes.ts";
import { print, printJson } from "./output.ts";

interface MigrateOptions extends ConnectionOptions {
  print?: true;
  status?: true;
  applicationRole?: string[];
  analystRole?: string[];
  json?: true;
}

export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .description("create or update the tables")
    .addOption(
      new Option(
        "--print",
        "print the SQL for a new schema instead, for an administrator to run; connects to nothing",
      ).conflicts(["status", "json"]),
    )
    .option("--status", "only say which migrations the schema has; exit code 1 if some are missing")
    .option(
      "--application-role <role>",
      "role of programs, bound to one tenant at a time; repeatable",
      collect,
    )
    .option("--analyst-role <role>", "role that reads the ledger of all tenants; repeatable", collect)
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions migrate --database-url postgresql://owner@db.example/agents
  pi-sessions migrate --application-role agents_app --analyst-role agents_bi
  pi-sessions migrate --print > migrations.sql
  pi-sessions migrate --status`,
    )
    .action(async (_options, command: Command) => {
      await migrate(command.optsWithGlobals<MigrateOptions>());
    });
}

function collect(role: string, roles: readonly string[] = []): string[] {
  return [...roles, role];
}

async function migrate(options: MigrateOptions): Promise<void> {
  const roles = {
    applicationRoles: options.applicationRole ?? [],
    analystRoles: options.analystRole ?? [],
  };
  if (options.print) {
    assertSchemaName(options.schema);
    process.stdout.write(await printMigrations(options.schema, roles));
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
  const applied = await database.migrate(roles);
  if (options.json) printJson({ applied });
  else print(applied.length === 0 ? "The schema is up to date." : `Applied ${applied.join(", ")}.`);
}
