import { randomUUID } from "node:crypto";
import {
  BACKGROUND_CONTEXT as context,
  type Database,
  insertUsage,
  type PgSession,
  type ReadonlyJsonObject,
} from "../../src/index.ts";

/** A row of the ledger, as a test tells it. What it leaves out is zero, or as below. */
export interface Spent {
  /** ISO 8601 with an offset, or milliseconds since the epoch. */
  at: string | number;
  /** Default `s`. */
  session?: string;
  /** Null: told by nobody. Default `p`. */
  provider?: string | null;
  /** Null: told by nobody. Default `m`. */
  model?: string | null;
  adjustment?: boolean;
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  cacheWrite1h?: number;
  reasoning?: number;
  /** Default 10. */
  totalTokens?: number;
  /** In total. */
  cost?: number;
  /** By part. */
  costs?: { input: number; output: number; cacheRead: number; cacheWrite: number };
}

/** What sessions are created with; default: the directory `/work/<id>`. */
export type Sessions = Readonly<Record<string, { cwd?: string; metadata?: ReadonlyJsonObject }>>;

/** Writes rows into a tenant's ledger, by commits of its sessions, which are created as they are named. */
export async function spend(
  database: Database,
  tenant: string,
  rows: readonly Spent[],
  sessions: Sessions = {},
): Promise<void> {
  const repo = await database.repo(tenant);
  for (const id of new Set(rows.map(({ session = "s" }) => session))) {
    const known = (await repo.list({ idPrefix: id }, context)).some((session) => session.id === id);
    const session: PgSession = known
      ? await repo.open({ id }, context)
      : await repo.create({ id, ...(sessions[id] ?? { cwd: `/work/${id}` }) }, context);
    const writes = rows.filter((row) => (row.session ?? "s") === id).map(writeOf);
    await session.mutate((mutator) => mutator.commit(writes, context), context);
    await session.close(context);
  }
}

function writeOf(row: Spent) {
  const { at, session, provider = "p", model = "m", adjustment = false, cost = 0, costs, ...tokens } = row;
  return insertUsage({
    id: randomUUID(),
    adjustment,
    details: { provider, model, timestamp: new Date(at).getTime() },
    usage: {
      ...{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 10, ...tokens },
      cost: { ...(costs ?? { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }), total: cost },
    },
  });
}
