import type { Context } from "../contract/context.ts";
import { readDimensions, setDimensions } from "./billing-dimensions.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { raisePositions } from "./raise-positions.ts";
import type { SchemaVersion } from "./schema-version.ts";
import { several } from "./several.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import { listTenants } from "./tenants.ts";
import type { Tables } from "./transaction.ts";
import { Budgets } from "./usage-budgets.ts";
import { type UsageChange, type UsageChangesOptions, usageChanges } from "./usage-changes.ts";
import { reportUsage, type UsageReport } from "./usage-report.ts";
import type { UsageReportOptions } from "./usage-report-options.ts";
import { rebuildUsage, rollUpUsage } from "./usage-sums.ts";

/** Whose usage, of one tenant or of all. */
export interface UsageScope {
  /** Slug of a tenant. Default: all tenants, whom only the role that owns the tables may list. */
  tenant?: string;
}

/** Each takes a connection, and keeps a core of the server busy. */
const TENANTS_AT_ONCE = 4;

/** What was spent: reports over the usage ledger, and what they are made by. Get it from `db.usage`. */
export class Usage {
  /** What a tenant may spend. */
  readonly budget: Budgets;
  readonly #tables: Tables;
  readonly #sessions: OpenSessions;
  readonly #version: SchemaVersion;

  /** @internal */
  constructor(tables: Tables, sessions: OpenSessions, version: SchemaVersion) {
    this.#tables = tables;
    this.#sessions = sessions;
    this.#version = version;
    this.budget = new Budgets((slug, work) => this.#run(slug, work));
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

  /**
   * What was spent, grouped, sorted and summed by the server in one round trip. Sums are exact; money is in US dollars,
   * as the text of a decimal.
   *
   * @throws InvalidOptionError, InvalidTextError, TenantNotFoundError, UsageOverflowError, DatabasePermissionError when
   *   the role sees one tenant at a time and none was named
   * @example
   * const { rows, total } = await db.usage.report(
   *   { tenant: "default", by: ["day", "model"], from: "2026-11-01", timeZone: "Europe/Berlin" },
   *   context,
   * );
   */
  report(options: UsageReportOptions, context: Context): Promise<UsageReport> {
    return this.#admit(() => reportUsage(this.#tables, options, context));
  }

  /**
   * Adds what is new in the ledger to the sums by hour, day and month that reports read instead of its rows. Reports
   * are right without it, since they add what is not summed yet; they are faster the less that is. So call it now and
   * then, every minute or so, in one process or in several; `pi-sessions usage roll-up --every 30s` does that.
   *
   * @returns the number of ledger rows that were added to the sums
   * @throws InvalidTextError, DatabasePermissionError when the role sees one tenant at a time and none was named
   */
  rollUp(scope: UsageScope, context: Context): Promise<number> {
    return this.#ofEach(scope, context, rollUpUsage);
  }

  /**
   * Makes the sums anew from the ledger, tenant by tenant.
   *
   * @returns the number of ledger rows that are in the sums
   * @throws InvalidTextError, DatabasePermissionError when the role sees one tenant at a time and none was named
   */
  rebuild(scope: UsageScope, context: Context): Promise<number> {
    return this.#ofEach(scope, context, rebuildUsage);
  }

  /**
   * Every row of the ledger exactly once, for billing systems: keep the `cursor` of the last row, and go on after it
   * next time. Ends with what was committed before the call, unless a transaction that began before it, anywhere on the
   * server, still runs: rows from its beginning on come with a later call. Rows of deleted sessions do not come any more.
   *
   * @throws InvalidTextError, InvalidCursorError, DatabasePermissionError when the role sees one tenant at a time and
   *   none was named
   * @example
   * for await (const row of db.usage.changes({ tenant: "default" }, context)) {
   *   console.log(row.model, row.cost.total, row.cursor);
   * }
   */
  async *changes({ tenant, after }: UsageChangesOptions, context: Context): AsyncGenerator<UsageChange> {
    const found = tenant === undefined ? undefined : tenantOf(tenant);
    const tables = found === undefined ? this.#tables : { ...this.#tables, tenant: found };
    await this.#admit(async () => {});
    yield* usageChanges(tables, found, after, context);
  }

  /**
   * To be called once by the owner after a dump was restored into another server, before anybody writes: rows get
   * their positions from the numbers of the server's transactions, and another server may have come less far. Cursors
   * of `changes` from before the dump then go on being right.
   *
   * @throws DatabasePermissionError when the role does not own the schema
   */
  afterRestore(context: Context): Promise<void> {
    return this.#admit(() => raisePositions(this.#tables, context));
  }

  #ofEach(
    { tenant }: UsageScope,
    context: Context,
    work: (tables: Tables, tenant: Tenant, context: Context) => Promise<number>,
  ): Promise<number> {
    return this.#admit(async () => {
      const slugs = tenant === undefined ? await allSlugs(this.#tables) : [tenant];
      let rows = 0;
      await several(slugs, { atOnce: TENANTS_AT_ONCE }, async (slug) => {
        const found = tenantOf(slug);
        const added = await work({ ...this.#tables, tenant: found }, found, context);
        rows += added;
      });
      return rows;
    });
  }

  #run<T>(slug: string, work: (tables: Tables, tenant: Tenant) => Promise<T>): Promise<T> {
    return this.#admit(async () => {
      const tenant = tenantOf(slug);
      return work({ ...this.#tables, tenant }, tenant);
    });
  }

  #admit<T>(operation: () => Promise<T>): Promise<T> {
    return this.#sessions.run(async () => {
      await this.#version.confirm();
      return operation();
    });
  }
}

async function allSlugs(tables: Tables): Promise<string[]> {
  const tenants = await listTenants(tables, {});
  return tenants.filter(({ isBeingDeleted }) => !isBeingDeleted).map(({ slug }) => slug);
}
