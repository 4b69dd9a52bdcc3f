import { join } from "node:path";
import type { Contender } from "../measuring/rounds.ts";
import { findPgbench, runPgbench } from "../pgbench/pgbench.ts";
import { FIRST_ENTRY_ID, pgbenchScript } from "../pgbench/script.ts";
import { newSessionId } from "../stores/conversation.ts";
import type { AppendLog } from "./append-log.ts";
import type { Bench } from "./bench.ts";

export const PGBENCH = "pgbench, the same SQL";

/** Does nothing but send what this package sends. Undefined if there is no pgbench. */
export async function pgbenchContender(
  bench: Bench,
  { width, messages }: { width: number; messages: number },
  log: AppendLog,
): Promise<Contender | undefined> {
  const program = await findPgbench();
  if (program === undefined) return undefined;
  const { server, directory, options } = bench;
  const worker = bench.worker("postgres");
  const [before, after] = await worker.call("captureAppends", { messages });
  if (before === undefined || after === undefined) throw new Error("no append was captured");
  const run = {
    program,
    url: server.applicationUrl,
    postmasterPid: server.postmasterPid,
    script: pgbenchScript([before, after]),
    file: join(directory, "append.pgbench"),
    width,
    // Each connection plans the statements anew, which takes the server a while.
    warmUpSeconds: width > 8 ? 3 : 1,
    seconds: options.isQuick ? 1 : 2,
  };
  return {
    name: PGBENCH,
    async sample() {
      const firstSession = newSessionId();
      const ids = Array.from({ length: width }, (_, client) => firstSession + client);
      await worker.call("createSessions", { ids, messages, lastId: FIRST_ENTRY_ID });
      const result = await runPgbench({ ...run, firstSession });
      await assertWritten(bench, ids, { messages, transactions: result.transactions });
      return log.pgbench(result);
    },
  };
}

/** A commit that lost its compare-and-swap is no error for pgbench, but it must not count. */
async function assertWritten(
  { server }: Bench,
  ids: readonly number[],
  { messages, transactions }: { messages: number; transactions: number },
): Promise<void> {
  const [written] = await server.query<{ entries: string }>(
    "select count(*) as entries from pi_sessions.entries where session_id = any($1)",
    [ids.map(String)],
  );
  const appends = Number(written?.entries) - ids.length * messages;
  // Those that were under way when it stopped may have been written without being counted.
  if (appends < transactions || appends > transactions + ids.length) {
    throw new Error(`pgbench ran ${transactions} transactions and wrote ${appends} entries`);
  }
}
