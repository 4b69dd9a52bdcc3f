import type { Command } from "commander";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { DeletedRows } from "../postgres/delete-tenant.ts";
import type { TenantRecord, Tenants } from "../postgres/tenants.ts";
import { assertConfirmed, jsonObject } from "./arguments.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import { formatCount, print, printJson, tell, visible } from "./output.ts";
import {
  addLiftingOptions,
  addLimitOptions,
  assertSomeLimit,
  changedLimits,
  type LimitOptions,
} from "./tenant-limits.ts";
import { printTenant, printTenants } from "./tenant-table.ts";

interface TenantOptions extends ConnectionOptions {
  json?: true;
}

export function addTenant(program: Command): void {
  const tenant = program
    .command("tenant")
    .description("create, list, change, suspend and delete tenants; connect as the role that owns the tables")
    .addHelpText(
      "after",
      examples(
        'create acme --name "Acme Inc."',
        "limit acme --max-stored-bytes 1000000000",
        `settings acme '{"plan":"pro"}'`,
        "delete acme --confirm acme",
      ),
    );
  addCreate(tenant);
  addListOfTenants(tenant);
  addStateCommands(tenant);
  addSettings(tenant);
  addLimit(tenant);
  addDelete(tenant);
}

/** As help shows them. */
function examples(...commands: string[]): string {
  return `\nExamples:\n${commands.map((command) => `  pi-sessions tenant ${command}`).join("\n")}`;
}

function addCreate(tenant: Command): void {
  const create = tenant
    .command("create <slug>")
    .description("add a tenant; its slug can never be changed")
    .option("--name <name>", "name for people")
    .option("--settings <json>", "settings of your application, a JSON object", jsonObject);
  addLimitOptions(create)
    .option("--json", "print JSON")
    .addHelpText("after", examples("create acme", 'create acme --name "Acme Inc." --max-sessions 1000'))
    .action(
      action((tenants, slug, options: LimitOptions & { name?: string; settings?: ReadonlyJsonObject }) => {
        const { name, settings } = options;
        const limits = changedLimits({}, options);
        return tenants.create({
          slug,
          ...(name === undefined ? {} : { name }),
          ...(settings === undefined ? {} : { settings }),
          ...(Object.keys(limits).length === 0 ? {} : { limits }),
        });
      }),
    );
}

function addListOfTenants(tenant: Command): void {
  tenant
    .command("list")
    .description("show all tenants")
    .option("--json", "print JSON")
    .addHelpText("after", examples("list", "list --json | jq '.[].slug'"))
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<TenantOptions>();
      await using connection = await connect(options);
      const tenants = await connection.database.tenants.list();
      if (options.json) printJson(tenants);
      else printTenants(tenants);
    });
}

function addStateCommands(tenant: Command): void {
  tenant
    .command("show <slug>")
    .description("show a tenant with its limits and settings")
    .option("--json", "print JSON")
    .addHelpText("after", examples("show acme"))
    .action(action((tenants, slug) => tenants.get(slug)));
  tenant
    .command("rename <slug> <name>")
    .description("change the name for people; the slug stays")
    .option("--json", "print JSON")
    .addHelpText("after", examples('rename acme "Acme Ltd."'))
    .action((slug: string, name: string, _options, command: Command) =>
      withTenants(command, (tenants) => tenants.rename(slug, name)),
    );
  tenant
    .command("suspend <slug>")
    .description("make a tenant read-only")
    .option("--json", "print JSON")
    .addHelpText("after", examples("suspend acme"))
    .action(action((tenants, slug) => tenants.suspend(slug)));
  tenant
    .command("resume <slug>")
    .description("make a suspended tenant writable again")
    .option("--json", "print JSON")
    .addHelpText("after", examples("resume acme"))
    .action(action((tenants, slug) => tenants.resume(slug)));
}

function addSettings(tenant: Command): void {
  tenant
    .command("settings")
    .description("print the settings of your application for a tenant as JSON, or replace them")
    .argument("<slug>", "the tenant")
    .argument("[json]", "the new settings, a JSON object, in place of all that there are", jsonObject)
    .addHelpText("after", examples("settings acme", `settings acme '{"plan":"pro"}'`))
    .action(async (slug: string, settings: ReadonlyJsonObject | undefined, _options, command: Command) => {
      await using connection = await connect(command.optsWithGlobals<TenantOptions>());
      const { tenants } = connection.database;
      const record = await (settings === undefined ? tenants.get(slug) : tenants.setSettings(slug, settings));
      printJson(record.settings);
    });
}

function addLimit(tenant: Command): void {
  const limit = tenant
    .command("limit <slug>")
    .description("change the limits that are named; the others stay");
  addLiftingOptions(addLimitOptions(limit))
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      examples("limit acme --max-sessions 1000 --max-entry-bytes 10000000", "limit acme --no-max-sessions"),
    )
    .action((slug: string, options: LimitOptions, command: Command) => {
      assertSomeLimit(options);
      return withTenants(command, async (tenants) => {
        const { limits } = await tenants.get(slug);
        return tenants.setLimits(slug, changedLimits(limits, options));
      });
    });
}

function addDelete(tenant: Command): void {
  tenant
    .command("delete <slug>")
    .description("remove a tenant with all its sessions; after an interruption, run it again")
    .requiredOption("--confirm <slug>", "the slug again")
    .option("--json", "print JSON")
    .addHelpText("after", examples("delete acme --confirm acme"))
    .action(async (slug: string, _options, command: Command) => {
      const options = command.optsWithGlobals<TenantOptions & { confirm: string }>();
      const { confirm } = options;
      assertConfirmed(slug, confirm);
      await using connection = await connect(options);
      const removed = await connection.database.tenants.delete(slug, {
        confirm,
        context,
        onProgress: (soFar) => {
          if (process.stderr.isTTY === true) tell(`Removed ${describe(soFar)} …`);
        },
      });
      if (options.json) printJson(removed);
      else print(`Deleted ${visible(slug)}: ${describe(removed)}.`);
    });
}

/** An action on one tenant that ends with showing it. */
function action<TOptions>(
  work: (tenants: Tenants, slug: string, options: TOptions) => Promise<TenantRecord>,
): (slug: string, options: TOptions, command: Command) => Promise<void> {
  return (slug, options, command) => withTenants(command, (tenants) => work(tenants, slug, options));
}

async function withTenants(
  command: Command,
  work: (tenants: Tenants) => Promise<TenantRecord>,
): Promise<void> {
  const options = command.optsWithGlobals<TenantOptions>();
  await using connection = await connect(options);
  const record = await work(connection.database.tenants);
  if (options.json) printJson(record);
  else printTenant(record);
}

function describe({ sessions, entries, usageRows, values, listElements }: DeletedRows): string {
  return [
    `${formatCount(sessions)} sessions`,
    `${formatCount(entries)} entries`,
    `${formatCount(usageRows)} usage rows`,
    `${formatCount(values)} values`,
    `${formatCount(listElements)} list elements`,
  ].join(", ");
}
