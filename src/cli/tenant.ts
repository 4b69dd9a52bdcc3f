import type { Command } from "commander";
import type { DeletedRows } from "../postgres/delete-tenant.ts";
import type { TenantLimits } from "../postgres/set-limits.ts";
import type { TenantRecord, Tenants } from "../postgres/tenants.ts";
import { jsonObject, wholeNumber } from "./arguments.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { context } from "./interruption.ts";
import {
  type Column,
  formatCount,
  formatTime,
  oneLine,
  print,
  printJson,
  printTable,
  tell,
  visible,
} from "./output.ts";

interface TenantOptions extends ConnectionOptions {
  json?: true;
}

interface LimitOptions {
  maxSessions?: number;
  maxStoredBytes?: number;
  maxEntryBytes?: number;
}

export function addTenant(program: Command): void {
  const tenant = program
    .command("tenant")
    .description("create, list, suspend and delete tenants; connect as the role that owns the tables")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions tenant create acme --name "Acme Inc."
  pi-sessions tenant limit acme --max-stored-bytes 1000000000
  pi-sessions tenant delete acme --confirm acme`,
    );
  addCreate(tenant);
  addListOfTenants(tenant);
  addStateCommands(tenant);
  addLimit(tenant);
  addDelete(tenant);
}

function addCreate(tenant: Command): void {
  const create = tenant
    .command("create <slug>")
    .description("add a tenant; a slug is for good")
    .option("--name <name>", "name for people")
    .option("--settings <json>", "settings of your application, a JSON object", jsonObject);
  addLimitOptions(create).action(
    action(
      async (tenants, slug, options: LimitOptions & { name?: string; settings?: Record<string, never> }) => {
        const { name, settings } = options;
        const limits = limitsOf(options);
        return tenants.create({
          slug,
          ...(name === undefined ? {} : { name }),
          ...(settings === undefined ? {} : { settings }),
          ...(Object.keys(limits).length === 0 ? {} : { limits }),
        });
      },
    ),
  );
}

function addListOfTenants(tenant: Command): void {
  tenant
    .command("list")
    .description("show all tenants")
    .option("--json", "print JSON")
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<TenantOptions>();
      await using connection = await connect(options);
      const tenants = await connection.database.tenants.list();
      if (options.json) printJson(tenants);
      else printTable(COLUMNS, tenants);
    });
}

function addStateCommands(tenant: Command): void {
  tenant
    .command("show <slug>")
    .description("show a tenant")
    .option("--json", "print JSON")
    .action(action((tenants, slug) => tenants.get(slug)));
  tenant
    .command("rename <slug> <name>")
    .description("change the name for people; the slug stays")
    .option("--json", "print JSON")
    .action(async (slug: string, name: string, _options, command: Command) => {
      await withTenants(command, (tenants) => tenants.rename(slug, name));
    });
  tenant
    .command("suspend <slug>")
    .description("let a tenant only be read from now on")
    .option("--json", "print JSON")
    .action(action((tenants, slug) => tenants.suspend(slug)));
  tenant
    .command("resume <slug>")
    .description("let a suspended tenant be written again")
    .option("--json", "print JSON")
    .action(action((tenants, slug) => tenants.resume(slug)));
}

function addLimit(tenant: Command): void {
  addLimitOptions(
    tenant.command("limit <slug>").description("replace the limits; those that are left out are lifted"),
  ).action(action((tenants, slug, options: LimitOptions) => tenants.setLimits(slug, limitsOf(options))));
}

function addDelete(tenant: Command): void {
  tenant
    .command("delete <slug>")
    .description("remove a tenant with all its sessions; after an interruption, run it again")
    .requiredOption("--confirm <slug>", "the slug again")
    .option("--json", "print JSON")
    .action(async (slug: string, _options, command: Command) => {
      const options = command.optsWithGlobals<TenantOptions & { confirm: string }>();
      await using connection = await connect(options);
      const removed = await connection.database.tenants.delete(slug, {
        confirm: options.confirm,
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
  else printTable(COLUMNS, [record]);
}

const COLUMNS: Column<TenantRecord>[] = [
  { head: "SLUG", cell: ({ slug }) => visible(slug) },
  { head: "NAME", cell: ({ name }) => oneLine(name ?? "–", 40) },
  { head: "CREATED", cell: ({ createdAt }) => formatTime(createdAt) },
  {
    head: "STATE",
    cell: ({ isBeingDeleted, suspendedAt }) =>
      isBeingDeleted
        ? "being deleted"
        : suspendedAt === undefined
          ? "active"
          : `suspended ${formatTime(suspendedAt)}`,
  },
  { head: "MAX SESSIONS", cell: ({ limits }) => limitCell(limits.sessions), align: "right" },
  { head: "MAX BYTES", cell: ({ limits }) => limitCell(limits.storedBytes), align: "right" },
  { head: "MAX ENTRY", cell: ({ limits }) => limitCell(limits.entryBytes), align: "right" },
];

function limitCell(maximum: number | undefined): string {
  return maximum === undefined ? "–" : formatCount(maximum);
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

function addLimitOptions(command: Command): Command {
  return command
    .option("--json", "print JSON")
    .option("--max-sessions <count>", "sessions that the tenant may have", wholeNumber)
    .option("--max-stored-bytes <bytes>", "JSON that all its sessions together may store", wholeNumber)
    .option("--max-entry-bytes <bytes>", "JSON of one entry", wholeNumber);
}

function limitsOf({ maxSessions, maxStoredBytes, maxEntryBytes }: LimitOptions): TenantLimits {
  return {
    ...(maxSessions === undefined ? {} : { sessions: maxSessions }),
    ...(maxStoredBytes === undefined ? {} : { storedBytes: maxStoredBytes }),
    ...(maxEntryBytes === undefined ? {} : { entryBytes: maxEntryBytes }),
  };
}
