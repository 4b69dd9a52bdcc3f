/** What the policies compare `tenant_id` with. Valid for one transaction. */
export const TENANT_SETTING = "pi_sessions.tenant";

/** The statement that names the tenant of the rest of a transaction. */
export function tenantSetting(tenantId: string): string {
  // It goes to the server as text, beside the beginning of the transaction, which takes no parameters.
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(tenantId)) throw new TypeError("not a tenant id");
  return `set local ${TENANT_SETTING} = '${tenantId}'`;
}
