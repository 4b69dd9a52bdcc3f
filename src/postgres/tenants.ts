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
import type { SchemaVersion } from "./schema-version.ts";
import {
  assertLimits,
  countNothing,
  isCounted,
  limitColumns,
  setLimits,
  type TenantLimits,
} from "./set-limits.ts";
import { type Tenant, tenantOf } from "./tenant-id.ts";
import { read, readCommitted, type Tables, write } from "./transaction.ts";

/** A tenant as it is stored. */
export interface TenantRecord {
  /** 1 to 128 bytes of UTF-8. Permanent: the tenant's id follows from it. */
  slug: string;
  /** UUID of version 8, derived from the slug. It is the column `tenant_id` of every table. */
  tenantId: string;
  /** Display name, up to 1,024 bytes of UTF-8; can be changed. */
  name: string | undefined;
  /** Data of the application; never interpreted here. */
  settings: ReadonlyJsonObject;
  /** Milliseconds since the epoch. */
  createdAt: number;
  /** Since when the tenant is read-only, in milliseconds since the epoch; `undefined` while it is active. */
  suspendedAt: number | undefined;
  /** A deletion was begun and has to be finished. */
  isBeingDeleted: boolean;
  /** What the tenant may have at most; a limit that is absent does not exist. */
  limits: TenantLimits;
}

/** What a new tenant starts with. */
export interface TenantCreateOptions {
  /** 1 to 128 bytes of UTF-8, by which programs name the tenant. It cannot be changed. */
  slug: string;
  /** Display name, up to 1,024 bytes of UTF-8. */
  name?: string;
  /** Data of the application, a JSON object. Default: an empty one. */
  settings?: ReadonlyJsonObject;
  /** Default: none. Only the role that owns the tables may set limits. */
  limits?: TenantLimits;
}

/** Confirms and follows the deletion of a tenant. */
export interface TenantDeleteOptions {
  /** The slug again, as a safeguard. */
  confirm: string;
  /** Called after each batch, with the rows removed so far by this call. */
  onProgress?: (removed: DeletedRows) => void;
  /** Aborting its signal stops the deletion after the batch that runs; call again to go on. */
  context?: Context;
}

/** Which tenants to list. */
export interface TenantListOptions {
  /** At most this many tenants, at least 1; default: all. */
  limit?: number;
  /** Only tenants whose slug sorts after this one, up to 128 bytes of UTF-8: the last slug of the page before. */
  after?: string;
}

/**
 * The tenants of a database; get it from `db.tenants`. An application role may `create` (without limits), `get` and
 * `rename`; everything else needs the role that owns the tables and rejects with DatabasePermissionError otherwise.
 */
export class Tenants {
  readonly #tables: Tables;
  readonly #sessions: OpenSessions;
  readonly #version: SchemaVersion;

  /** @internal */
  constructor(tables: Tables, sessions: OpenSessions, version: SchemaVersion) {
    this.#tables = tables;
    this.#sessions = sessions;
    this.#version = version;
  }

  /**
   * Adds a tenant.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantExistsError, DatabasePermissionError when the role may not
   *   set limits
   */
  create({ slug, name, settings = {}, limits = {} }: TenantCreateOptions): Promise<TenantRecord> {
    return this.#run(slug, async (tables, { tenantId }) => {
      assertName(name);
      assertLimits(limits);
      const row = {
        tenant_id: tenantId,
        slug,
        settings: settingsText(settings),
        ...(name === undefined ? {} : { name }),
        // Columns that the role may not set are not named.
        ...(Object.values(limits).some((limit) => limit !== undefined) ? limitColumns(limits) : {}),
      };
      try {
        const [[created]] = await readCommitted(tables, BACKGROUND_CONTEXT, (trx) =>
          trx.commitWith<[TenantRow, ...unknown[]]>(
            trx.db.insertInto("tenants").values(row).returning(RECORD),
            trx.db.insertInto("usage_tenants").values({ tenant_id: tenantId, slug, position: 0 }),
            ...(isCounted(limits) ? [countNothing(trx.db, tenantId)] : []),
          ),
        );
        return recordOf(created as TenantRow);
      } catch (error) {
        if (isTaken(error, "tenants")) throw new TenantExistsError(slug);
        throw error;
      }
    });
  }

  /**
   * One tenant, also a suspended one or one that is being deleted.
   *
   * @throws InvalidTextError, TenantNotFoundError
   */
  get(slug: string): Promise<TenantRecord> {
    return this.#run(slug, getTenant);
  }

  /**
   * Tenants in the order of their slugs, by code point.
   *
   * @throws InvalidTextError, InvalidOptionError, DatabasePermissionError when the role sees one tenant at a time
   */
  list(options: TenantListOptions = {}): Promise<TenantRecord[]> {
    return this.#sessions.run(async () => {
      await this.#version.confirm();
      return listTenants(this.#tables, options);
    });
  }

  /**
   * Changes the display name; `undefined` removes it. The slug stays.
   *
   * @throws InvalidTextError, TenantNotFoundError
   */
  rename(slug: string, name: string | undefined): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      assertName(name);
      return updateTenant(tables, tenant, { name: name ?? null });
    });
  }

  /**
   * Replaces the application's settings of a tenant by another JSON object.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantNotFoundError, DatabasePermissionError
   */
  setSettings(slug: string, settings: ReadonlyJsonObject): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) =>
      updateTenant(tables, tenant, { settings: settingsText(settings) }),
    );
  }

  /**
   * Makes a tenant read-only: writes to it reject with TenantSuspendedError. Commits that are under way may still
   * succeed.
   *
   * @throws InvalidTextError, TenantNotFoundError, DatabasePermissionError
   */
  suspend(slug: string): Promise<TenantRecord> {
    return this.#run(slug, (tables, tenant) =>
      updateTenant(tables, tenant, {
        suspended_at: sql<number>`coalesce(suspended_at, ${Date.now()}::bigint)`,
      }),
    );
  }

  /**
   * Makes a suspended tenant writable again.
   *
   * @throws InvalidTextError, TenantNotFoundError, TenantBeingDeletedError, DatabasePermissionError
   */
  resume(slug: string): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      const record = await getTenant(tables, tenant);
      if (record.isBeingDeleted) throw new TenantBeingDeletedError(slug);
      return updateTenant(tables, tenant, { suspended_at: null });
    });
  }

  /**
   * Replaces all limits; those left out are lifted. A limit below what the tenant has only keeps it from growing.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantNotFoundError, DatabasePermissionError
   */
  setLimits(slug: string, limits: TenantLimits): Promise<TenantRecord> {
    return this.#run(slug, async (tables, tenant) => {
      assertLimits(limits);
      await setLimits(tables, tenant, limits);
      return getTenant(tables, tenant);
    });
  }

  /**
   * Removes a tenant and everything that it has, in batches that lock no other tenant's rows. From the first moment
   * on, nobody can open or write the tenant. After an interruption, call it again.
   *
   * @returns what was removed by this call
   * @throws InvalidTextError, InvalidOptionError when `confirm` is not the slug, TenantNotFoundError,
   *   DatabasePermissionError, and the reason of the abort signal, between two batches
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
      await this.#version.confirm();
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

const RECORD = [...COLUMNS, sql<string>`settings::text`.as("settings")] as const;

function recordsOf(db: Kysely<DB>) {
  return db.selectFrom("tenants").select(RECORD);
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

/** @throws InvalidTextError, InvalidOptionError, DatabasePermissionError */
export async function listTenants(
  tables: Tables,
  { limit, after }: TenantListOptions,
): Promise<TenantRecord[]> {
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
  const statement = (db: Kysely<DB>) =>
    db.updateTable("tenants").set(columns).where("tenant_id", "=", tenantId).returning(RECORD);
  const [updated] = await write(tables, BACKGROUND_CONTEXT, statement, { isRepeatable: true });
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
