import { readFile } from "node:fs/promises";
import { type Kysely, sql } from "kysely";
import { InvalidOptionError } from "../contract/errors.ts";
import { isStorable } from "../contract/text.ts";
import { RoleNotFoundError } from "./errors.ts";
import type { DB } from "./schema.generated.ts";

/**
 * Roles that may use the tables. Those that do not exist are created without login, if the migrating role may do
 * that. Roles that were named before keep their rights.
 */
export interface MigrationRoles {
  /** Programs connect as these: they read and write one tenant at a time. Names of up to 63 bytes. */
  applicationRoles?: readonly string[];
  /** These read the usage ledger of all tenants, and nothing else. Names of up to 63 bytes. */
  analystRoles?: readonly string[];
}

const DIRECTORY = new URL("../../sql/roles/", import.meta.url);

/** @throws InvalidOptionError */
export function assertRoles({ applicationRoles = [], analystRoles = [] }: MigrationRoles): void {
  for (const role of [...applicationRoles, ...analystRoles]) {
    if (!isStorable(role) || role === "" || Buffer.byteLength(role) > 63) {
      throw new InvalidOptionError("role", JSON.stringify(role), "pass the name of a role, up to 63 bytes");
    }
  }
  const both = applicationRoles.find((role) => analystRoles.includes(role));
  if (both !== undefined) {
    throw new InvalidOptionError(
      "role",
      JSON.stringify(both),
      "an application sees one tenant and an analyst all of them, so use two roles",
    );
  }
}

/** Grants what the files in sql/roles say, to the given roles and to those that have it already. */
export async function grantToRoles(trx: Kysely<DB>, schema: string, roles: MigrationRoles): Promise<void> {
  const granted = await grantedRoles(trx, schema);
  const all = {
    applicationRoles: union(granted.applicationRoles, roles.applicationRoles),
    analystRoles: union(granted.analystRoles, roles.analystRoles),
  };
  assertRoles(all);
  for (const role of [...all.applicationRoles, ...all.analystRoles]) await ensureRole(trx, role);
  await sql.raw(await printGrants(schema, all)).execute(trx);
}

/** The statements as an administrator may run them; the roles must exist. */
export async function printGrants(
  schema: string,
  { applicationRoles = [], analystRoles = [] }: MigrationRoles,
): Promise<string> {
  const texts = [await grants("owner.sql", schema, [])];
  if (applicationRoles.length > 0) texts.push(await grants("application.sql", schema, applicationRoles));
  if (analystRoles.length > 0) texts.push(await grants("analyst.sql", schema, analystRoles));
  return texts.join("\n");
}

async function grants(file: string, schema: string, roles: readonly string[]): Promise<string> {
  const text = await readFile(new URL(file, DIRECTORY), "utf8");
  return text.replaceAll("{schema}", `"${schema}"`).replaceAll("{role}", () => roles.map(quoted).join(", "));
}

async function grantedRoles(db: Kysely<DB>, schema: string): Promise<Required<MigrationRoles>> {
  const { rows } = await sql<{ role: string; is_analyst: boolean }>`
    select r.rolname as role, false as is_analyst
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace,
      aclexplode(c.relacl) as a join pg_roles as r on r.oid = a.grantee
    where n.nspname = ${schema} and c.relname = 'entries' and a.privilege_type = 'INSERT' and a.grantee <> c.relowner
    union
    select r.rolname, true
    from pg_policies as p join pg_roles as r on r.rolname = any(p.roles)
    where p.schemaname = ${schema} and p.policyname = 'all_for_analyst'`.execute(db);
  const named = (isAnalyst: boolean) =>
    rows.filter((row) => row.is_analyst === isAnalyst).map(({ role }) => role);
  return { applicationRoles: named(false), analystRoles: named(true) };
}

async function ensureRole(db: Kysely<DB>, role: string): Promise<void> {
  const { rows } = await sql<{ exists: boolean; is_owner: boolean; may_create: boolean }>`
    select exists (select from pg_roles where rolname = ${role}) as exists,
      ${role} = current_user as is_owner, rolcreaterole or rolsuper as may_create
    from pg_roles where rolname = current_user`.execute(db);
  const [found] = rows;
  if (found?.is_owner === true) {
    throw new InvalidOptionError(
      "role",
      JSON.stringify(role),
      "it owns the tables and could switch their protection off, so name another role",
    );
  }
  if (found?.exists === true) return;
  if (found?.may_create !== true) throw new RoleNotFoundError(role);
  await sql.raw(`create role ${quoted(role)} nologin`).execute(db);
}

function union(left: readonly string[], right: readonly string[] = []): string[] {
  return [...new Set([...left, ...right])];
}

function quoted(role: string): string {
  return `"${role.replaceAll('"', '""')}"`;
}
