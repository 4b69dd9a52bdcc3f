import { createHash } from "node:crypto";
import { stringify } from "uuid";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";

/** A customer; its id follows from its slug. */
export interface Tenant {
  readonly tenantId: string;
  readonly slug: string;
}

/**
 * The same as the function `tenant_id` of sql/0002_tenants.sql: 16 bytes of a SHA-256, as a UUID of version 8.
 *
 * @throws InvalidTextError
 */
export function tenantOf(slug: string): Tenant {
  assertText("tenant slug", slug, { maxBytes: TEXT_LIMITS.tenantSlug, empty: false });
  const bytes = createHash("sha256").update(`pi-session-postgres tenant ${slug}`).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] as number) & 15) | 128;
  bytes[8] = ((bytes[8] as number) & 63) | 128;
  return { tenantId: stringify(bytes), slug };
}
