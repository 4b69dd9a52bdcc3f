import type { SessionRepo } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { sessionRepoBenchmarkSessionId } from "@earendil-works/pi-agent-core/harness/session/testing";
import pg from "pg";
import {
  CommitContentionError,
  type Database,
  openDatabase,
  type PgSessionRepo,
  TenantExistsError,
} from "../../src/index.ts";
import { MAX_CONNECTIONS } from "../server/bench-server.ts";
import { groupsOf, type SessionStore } from "./session-store.ts";

const SERIALIZATION_FAILURE = "40001";
const CREATING_AT_ONCE = 8;

/** This package, as a program of its users connects: as a role that row-level security binds. One tenant per group. */
export async function openPostgresStore(connectionString: string): Promise<SessionStore> {
  const pool = new pg.Pool({ connectionString, max: MAX_CONNECTIONS });
  let repeats = 0;
  pool.on("connect", (client) => {
    onRefusal(client, (code) => {
      if (code === SERIALIZATION_FAILURE) repeats++;
    });
  });
  const database = await openDatabase({ pool });
  const { isBound } = await database.checkIsolation("default");
  if (!isBound) throw new Error("row-level security does not bind the role of the benchmark");
  return {
    group: groupsOf(async (name) => {
      await createTenant(database, name);
      const repo = await database.repo(name);
      return {
        repo: repo as SessionRepo,
        storageOf: ({ metadata }) => repo.openStorage(metadata, BACKGROUND_CONTEXT),
        addSessions: (count) => addSessions(repo, count),
      };
    }),
    isRefusal: (error) => error instanceof CommitContentionError,
    repeats: () => repeats,
    async close() {
      await database.close();
      await pool.end();
    },
  };
}

/** Listens to what the driver keeps to itself: the server's errors that this package hides from its caller. */
function onRefusal(client: pg.PoolClient, listener: (code: string) => void): void {
  const { connection } = client as pg.PoolClient & { connection: NodeJS.EventEmitter };
  connection.on("errorMessage", ({ code }: { code: string }) => listener(code));
}

/** Another worker may have been here. */
async function createTenant(database: Database, slug: string): Promise<void> {
  try {
    await database.tenants.create({ slug });
  } catch (error) {
    if (!(error instanceof TenantExistsError)) throw error;
  }
}

async function addSessions(repo: PgSessionRepo, count: number): Promise<void> {
  let next = 0;
  const create = async () => {
    while (next < count) {
      const id = sessionRepoBenchmarkSessionId(next++);
      await (await repo.create({ id }, BACKGROUND_CONTEXT)).close(BACKGROUND_CONTEXT);
    }
  };
  await Promise.all(Array.from({ length: CREATING_AT_ONCE }, create));
}
