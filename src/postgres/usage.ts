import { readDimensions, setDimensions } from "./billing-dimensions.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import type { Tables } from "./transaction.ts";

/** What was spent: reports over the usage ledger, and what they are made by. Get it from `db.usage`. */
export class Usage {
  readonly #tables: Tables;
  readonly #sessions: OpenSessions;

  /** @internal */
  constructor(tables: Tables, sessions: OpenSessions) {
    this.#tables = tables;
    this.#sessions = sessions;
  }

  /**
   * Keys of session metadata by which the tenant's usage can be grouped.
   *
   * @throws InvalidTextError, TenantNotFoundError
   */
  dimensions(tenant: string): Promise<string[]> {
    return this.#run(tenant, readDimensions);
  }

  /**
   * Declares by which keys of session metadata the tenant's usage can be grouped: up to 16, each of 1 to 128 bytes of
   * UTF-8. From then on, each commit writes the values that its session has under them down with its usage, as text of
   * up to 200 characters; usage of before keeps what was written with it.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantNotFoundError
   * @example
   * await db.usage.setDimensions("acme", ["project", "team"]);
   */
  setDimensions(tenant: string, keys: readonly string[]): Promise<void> {
    return this.#run(tenant, (tables, found) => setDimensions(tables, found, keys));
  }

  #run<T>(slug: string, work: (tables: Tables, tenant: Tenant) => Promise<T>): Promise<T> {
    return this.#sessions.run(async () => {
      const tenant = tenantOf(slug);
      return work({ ...this.#tables, tenant }, tenant);
    });
  }
}
