import { type Kysely, sql } from "kysely";
import { BACKGROUND_CONTEXT } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { isStorable } from "../contract/text.ts";
import { TenantNotFoundError } from "./errors.ts";
import type { DB } from "./schema.generated.ts";
import type { Tenant } from "./tenant-id.ts";
import { read, type Tables, write } from "./transaction.ts";

const MAX_DIMENSIONS = 16;
const MAX_KEY_BYTES = 128;

/** @throws TenantNotFoundError */
export async function readDimensions(tables: Tables, { tenantId, slug }: Tenant): Promise<string[]> {
  const [row] = await read(tables, BACKGROUND_CONTEXT, (db) =>
    db
      .selectFrom("tenants")
      .select(sql<string>`to_json(billing_dimensions)::text`.as("keys"))
      .where("tenant_id", "=", tenantId),
  );
  if (row === undefined) throw new TenantNotFoundError(slug);
  return JSON.parse(row.keys) as string[];
}

/** @throws InvalidOptionError, TenantNotFoundError */
export async function setDimensions(
  tables: Tables,
  { tenantId, slug }: Tenant,
  keys: readonly string[],
): Promise<void> {
  assertKeys(keys);
  const statement = (db: Kysely<DB>) =>
    db
      .updateTable("tenants")
      .set({ billing_dimensions: [...keys] })
      .where("tenant_id", "=", tenantId)
      .returning("slug");
  const [updated] = await write(tables, BACKGROUND_CONTEXT, statement, { isRepeatable: true });
  if (updated === undefined) throw new TenantNotFoundError(slug);
}

/** @throws InvalidOptionError */
function assertKeys(keys: readonly string[]): void {
  const isKey = (key: unknown) => isStorable(key) && key !== "" && Buffer.byteLength(key) <= MAX_KEY_BYTES;
  if (!Array.isArray(keys) || keys.length > MAX_DIMENSIONS || !keys.every(isKey)) {
    throw new InvalidOptionError(
      "dimensions",
      JSON.stringify(keys),
      `pass up to ${MAX_DIMENSIONS} keys of session metadata, each of 1 to ${MAX_KEY_BYTES} bytes of UTF-8`,
    );
  }
  if (new Set(keys).size < keys.length) {
    throw new InvalidOptionError("dimensions", JSON.stringify(keys), "name each key once");
  }
}
