/** The two implementations of the contract that are compared. */
import { randomUUID } from "node:crypto";
import { MemorySessionRepo } from "@earendil-works/pi-agent-core/harness/session";
import {
  BACKGROUND_CONTEXT as context,
  type Database,
  type PgStorage,
  PiSessionError,
  type Session,
  type SessionRepo,
  type Storage,
} from "../../../src/index.ts";

export interface Side {
  readonly repo: SessionRepo;
  /** What is beneath an open session. */
  storageOf(session: Session): Promise<Storage>;
  /** Whether an error is an answer, and not a failure. */
  refuses(error: unknown): boolean;
  close(): Promise<void>;
}

/** One thing on each side: `subject` is under test, `reference` is right by definition. */
export type Pair<T> = { readonly [S in SideName]: T };
export type SideName = "subject" | "reference";

/** An empty repository in a tenant of its own. */
export async function postgresSide(database: Database): Promise<Side> {
  const tenant = randomUUID();
  await database.tenants.create({ slug: tenant });
  const repo = await database.repo(tenant);
  const storages: PgStorage[] = [];
  return {
    repo,
    // Not the storage of the session but another one, as another process would have: each overtakes the other.
    async storageOf(session) {
      const storage = await repo.openStorage(session.metadata, context);
      storages.push(storage);
      return storage;
    },
    refuses: (error) => error instanceof PiSessionError,
    async close() {
      await Promise.all(storages.map((storage) => storage.close(context)));
      await repo.close(context);
    },
  };
}

/** pi's own implementation; `damage` may break each of its storages on purpose. */
export function memorySide(damage: (storage: Storage) => void = () => {}): Side {
  const repo = new MemorySessionRepo();
  const damaged = new WeakSet<Storage>();
  const withDamage = async (opening: Promise<Session>): Promise<Session> => {
    const session = await opening;
    const storage = memoryStorage(session);
    if (!damaged.has(storage)) damage(storage);
    damaged.add(storage);
    return session;
  };
  return {
    repo: {
      create: (options, ctx) => withDamage(repo.create(options, ctx)),
      open: (metadata, ctx) => withDamage(repo.open(metadata, ctx)),
      fork: (source, options, ctx) => withDamage(repo.fork(source, options, ctx)),
      list: (_, ctx) => repo.list(undefined, ctx),
      delete: (metadata, ctx) => repo.delete(metadata, ctx),
    },
    storageOf: async (session) => memoryStorage(session),
    refuses: () => true,
    close: () => repo.close(context),
  };
}

/** pi does not hand out the storage of a memory session, so this reaches for it. */
function memoryStorage(session: Session): Storage {
  const inner: object = Reflect.get(session, "session");
  return Reflect.get(inner, "storage");
}
