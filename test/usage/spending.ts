import { randomUUID } from "node:crypto";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { type Database, insertUsage, type PgSession } from "../../src/index.ts";

/** A row of the ledger, as a test tells it; what it leaves out is zero, or as below. */
export interface Spent {
  /** ISO 8601 with an offset, or milliseconds since the epoch. */
  at: string | number;
  session?: string;
  provider?: string;
  model?: string;
  adjustment?: boolean;
  input?: number;
  output?: number;
  cacheRead?: number;
  cacheWrite?: number;
  cacheWrite1h?: number;
  reasoning?: number;
  /** Of all tokens; default 10. */
  totalTokens?: number;
  /** In total; the parts are `costs`. */
  cost?: number;
  costs?: { input: number; output: number; cacheRead: number; cacheWrite: number };
}

/** Writes rows into a tenant's ledger, by commits of its sessions, which are created as they are named. */
export async function spend(database: Database, tenant: string, rows: readonly Spent[]): Promise<void> {
  const repo = await database.repo(tenant);
  const sessions = new Map<string, PgSession>();
  for (const { session: id = "s" } of rows) {
    if (sessions.has(id)) continue;
    const [known] = await repo.list({ idPrefix: id }, context);
    sessions.set(
      id,
      known?.id === id
        ? await repo.open(known, context)
        : await repo.create({ id, cwd: `/work/${id}` }, context),
    );
  }
  for (const [id, session] of sessions) {
    const writes = rows.filter((row) => (row.session ?? "s") === id).map(writeOf);
    await session.mutate((mutator) => mutator.commit(writes, context), context);
    await session.close(context);
  }
}

function writeOf({ at, provider = "p", model = "m", adjustment = false, cost = 0, costs, ...tokens }: Spent) {
  const { session, ...counts } = tokens;
  return insertUsage({
    id: randomUUID(),
    adjustment,
    details: { provider, model, timestamp: new Date(at).getTime() },
    usage: {
      ...{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 10, ...counts },
      cost: { ...(costs ?? { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }), total: cost },
    },
  });
}
