import { type Kysely, sql, type UpdateObject } from "kysely";
import { BACKGROUND_CONTEXT, type Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import { assertText, TEXT_LIMITS } from "../contract/text.ts";
import { type DeletedRows, deleteTenant } from "./delete-tenant.ts";
import {
  DatabasePermissionError,
  TenantBeingDeletedError,
  TenantExistsError,
  TenantNotFoundError,
} from "./errors.ts";
import { isTaken } from "./failure.ts";
import type { OpenSessions } from "./open-sessions.ts";
import type { DB } from "./schema.generated.ts";
import { assertLimits, setLimits, type TenantLimits } from "./set-limits.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import { read, readCommitted, type Tables, write } from "./transaction.ts";

export interface TenantRecord {
  /** For good: the tenant's id follows from it. */
  slug: string;
  tenantId: string;
  /** For people; can be changed. */
  name: string | undefined;
  /** The application's own. */
  settings: ReadonlyJsonObject;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** Since when it can only be read. */
  suspendedAt: number | undefined;
  /** A deletion was begun and has to be finished. */
  isBeingDeleted: boolean;
  limits: TenantLimits;
}

export interface TenantCreateOptions {
  slug: string;
  name?: string;
  settings?: ReadonlyJsonObject;
  /** Only the role that owns the tables may set some. */
  limits?: TenantLimits;
}

export interface TenantDeleteOptions {
  /** The slug again, as a safeguard. */
  confirm: string;
  /** Is told the rows removed so far, after each batch. */
  onProgress?: (removed: DeletedRows) => void;
  /** Aborting its signal stops after the batch that runs; call again to go on. */
  context?: Context;
}

export interface TenantListOptions {
  /** At most so many; all without it. */
  limit?: number;
  /** Only slugs behind this one. */
  after?: string;
}

/** The customers of a database. Get it from `db.tenants`. All but `create` and `get` need the role that owns the tables. */
export class Tenants {
  readonly #tables: Tables;
  readonly #sessions: OpenSessions;

  /** @internal */
  constructor(tables: Tables, sessions: OpenSessions) {
    this.#tables = tables;
    this.#sessions = sessions;
  }

  /** @throws InvalidTextError, InvalidOptionError, TenantExistsError */
  create({ slug, name, settings = {}, limits }: TenantCreateOptions): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      assertName(name);
      const text = settingsText(settings);
      if (limits !== undefined) assertLimits(limits);
      try {
        await write(tables, BACKGROUND_CONTEXT, (db) =>
          db.insertInto("tenants").values({
            tenant_id: tenant.tenantId,
            slug,
            settings: text,
            ...(name === undefined ? {} : { name }),
          }),
        );
      } catch (error) {
        if (isTaken(error, "tenants")) throw new TenantExistsError(slug);
        throw error;
      }
      if (limits !== undefined) await setLimits(tables, tenant, limits);
      return await getTenant(tables, tenant);
    });
  }

  /** @throws TenantNotFoundError */
  get(slug: string): Promise<TenantRecord> {
    return this.#run(slug, getTenant);
  }

  /**
   * By slug, in the order of code points.
   *
   * @throws DatabasePermissionError when the role sees one tenant at a time
   */
  list(options: TenantListOptions = {}): Promise<TenantRecord[]> {
    return this.#sessions.run(() => listTenants(this.#tables, options));
  }

  /** Changes the name for people; a slug stays. `undefined` removes the name. @throws TenantNotFoundError */
  rename(slug: string, name: string | undefined): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      assertName(name);
      return updateTenant(tables, tenant, { name: name ?? null });
    });
  }

  /** Replaces the application's own settings. @throws TenantNotFoundError, InvalidOptionError */
  setSettings(slug: string, settings: ReadonlyJsonObject): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) =>
      updateTenant(tables, tenant, { settings: settingsText(settings) }),
    );
  }

  /** From now on the tenant can only be read. Commits that are under way may still succeed. @throws TenantNotFoundError */
  suspend(slug: string): Promise<TenantRecord> {
    return this.#run(slug, (tables, tenant) =>
      updateTenant(tables, tenant, {
        suspended_at: sql<number>`coalesce(suspended_at, ${Date.now()}::bigint)`,
      }),
    );
  }

  /** @throws TenantNotFoundError, TenantBeingDeletedError */
  resume(slug: string): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      const record = await getTenant(tables, tenant);
      if (record.isBeingDeleted) throw new TenantBeingDeletedError(slug);
      return updateTenant(tables, tenant, { suspended_at: null });
    });
  }

  /**
   * Replaces all limits. Those that are lower than what the tenant has only keep it from growing.
   *
   * @throws TenantNotFoundError, InvalidOptionError
   */
  setLimits(slug: string, limits: TenantLimits): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      assertLimits(limits);
      await setLimits(tables, tenant, limits);
      return getTenant(tables, tenant);
    });
  }

  /**
   * Removes a tenant and everything that it has, in batches that lock no other tenant's rows. Nobody can write the
   * tenant from the first moment on, and nobody can open it. After an interruption, call it again.
   *
   * @returns what was removed by this call
   * @throws TenantNotFoundError, InvalidOptionError when `confirm` is not the slug
   */
  delete(
    slug: string,
    { confirm, onProgress = () => {}, context }: TenantDeleteOptions,
  ): Promise<DeletedRows> {
    return this.#run(slug, async (tables, tenant) => {
      if (confirm !== slug) {
        throw new InvalidOptionError(
          "confirm",
          confirm,
          `repeat the slug, ${JSON.stringify(slug)}, to delete it`,
        );
      }
      await updateTenant(tables, tenant, {
        deleting: true,
        suspended_at: sql<number>`coalesce(suspended_at, ${Date.now()}::bigint)`,
      });
      return deleteTenant(tables, tenant, onProgress, context ?? BACKGROUND_CONTEXT);
    });
  }

  #run<T>(slug: string, work: (tables: Tables, tenant: Tenant) => Promise<T>): Promise<T> {
    return this.#sessions.run(async () => {
      const tenant = tenantOf(slug);
      return work({ ...this.#tables, tenant }, tenant);
    });
  }
}

const COLUMNS = [
  "tenant_id",
  "slug",
  "name",
  "created_at",
  "suspended_at",
  "deleting",
  "max_sessions",
  "max_stored_bytes",
  "max_entry_bytes",
] as const;

function recordsOf(db: Kysely<DB>) {
  return db.selectFrom("tenants").select([...COLUMNS, sql<string>`settings::text`.as("settings")]);
}

type TenantRow = Awaited<ReturnType<ReturnType<typeof recordsOf>["execute"]>>[number];

function recordOf(row: TenantRow): TenantRecord {
  return {
    slug: row.slug,
    tenantId: row.tenant_id,
    name: row.name ?? undefined,
    settings: JSON.parse(row.settings) as ReadonlyJsonObject,
    createdAt: row.created_at,
    suspendedAt: row.suspended_at ?? undefined,
    isBeingDeleted: row.deleting,
    limits: {
      ...(row.max_sessions === null ? {} : { sessions: row.max_sessions }),
      ...(row.max_stored_bytes === null ? {} : { storedBytes: row.max_stored_bytes }),
      ...(row.max_entry_bytes === null ? {} : { entryBytes: row.max_entry_bytes }),
    },
  };
}

async function getTenant(tables: Tables, { tenantId, slug }: Tenant): Promise<TenantRecord> {
  const [row] = await read(tables, BACKGROUND_CONTEXT, (db) =>
    recordsOf(db).where("tenant_id", "=", tenantId),
  );
  if (row === undefined) throw new TenantNotFoundError(slug);
  return recordOf(row);
}

async function listTenants(tables: Tables, { limit, after }: TenantListOptions): Promise<TenantRecord[]> {
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0)) {
    throw new InvalidOptionError("limit", limit, "pass a whole number from 1 on");
  }
  if (after !== undefined)
    assertText("tenant slug", after, { maxBytes: TEXT_LIMITS.tenantSlug, empty: true });
  const [[seer], rows] = await readCommitted(tables, BACKGROUND_CONTEXT, (trx) =>
    trx.commitWith(
      seesAllTenants(tables),
      recordsOf(trx.db)
        .$if(after !== undefined, (tenants) => tenants.where("slug", ">", after as string))
        .orderBy("slug")
        .$if(limit !== undefined, (tenants) => tenants.limit(limit as number)),
    ),
  );
  // Row-level security would show such a role none of them, without a word.
  if (seer?.sees_all !== true) throw new DatabasePermissionError("list tenants, which it sees one at a time");
  return rows.map(recordOf);
}

/** Members of the role that owns the tables do, and those whom no policy binds. */
function seesAllTenants({ schema }: Tables) {
  return sql<{ sees_all: boolean }>`
    select pg_has_role(c.relowner, 'usage') or r.rolsuper or r.rolbypassrls as sees_all
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace, pg_roles as r
    where n.nspname = ${schema} and c.relname = 'tenants' and r.rolname = current_user`;
}

async function updateTenant(
  tables: Tables,
  { tenantId, slug }: Tenant,
  columns: UpdateObject<DB, "tenants">,
): Promise<TenantRecord> {
  const [updated] = await write(tables, BACKGROUND_CONTEXT, (db) =>
    db
      .updateTable("tenants")
      .set(columns)
      .where("tenant_id", "=", tenantId)
      .returning([...COLUMNS, sql<string>`settings::text`.as("settings")]),
  );
  if (updated === undefined) throw new TenantNotFoundError(slug);
  return recordOf(updated);
}

function assertName(name: string | undefined): void {
  if (name !== undefined) assertText("tenant name", name, { maxBytes: TEXT_LIMITS.tenantName, empty: true });
}

/** @throws InvalidOptionError */
function settingsText(settings: ReadonlyJsonObject): string {
  if (typeof settings !== "object" || settings === null || Array.isArray(settings)) {
    throw new InvalidOptionError("settings", typeof settings, "pass a JSON object");
  }
  try {
    return JSON.stringify(settings);
  } catch {
    throw new InvalidOptionError("settings", "the given object", "pass JSON data only");
  }
}
