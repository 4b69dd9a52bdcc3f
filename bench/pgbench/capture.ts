import type { SessionRepo } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import pg from "pg";
import { prepareValue } from "pg/lib/utils.js";
import { openDatabase } from "../../src/index.ts";
import type { WireStatement } from "../../src/postgres/pipeline.ts";
import { MESSAGE } from "../message.ts";
import { newSessionId, startConversation } from "../stores/conversation.ts";
import type { SessionStore } from "../stores/session-store.ts";
import type { CapturedAppend, Operations } from "../worker/operations.ts";

/** Where pgbench appends, too. */
const GROUP = "appends";

type InputOf<O extends keyof Operations> = Parameters<Operations[O]>[0];
type Sent = CapturedAppend["statements"];

/** Appends to a session on a connection that is listened to, and returns what was sent for the first two appends. */
export async function captureAppends(
  store: SessionStore,
  connectionString: string,
  { messages }: InputOf<"captureAppends">,
): Promise<CapturedAppend[]> {
  await store.group(GROUP);
  const pool = new pg.Pool({ connectionString, max: 1 });
  let sent: Sent = [];
  pool.on("connect", (client) => listen(client, (statement) => sent.push(statement)));
  const database = await openDatabase({ pool });
  try {
    const repo = (await database.repo(GROUP)) as SessionRepo;
    const { session, branch } = await startConversation(repo, { id: newSessionId(), messages });
    const captured: CapturedAppend[] = [];
    let parentId = (await branch.getTipId(BACKGROUND_CONTEXT)) ?? "";
    for (let time = 0; time < 2; time++) {
      sent = [];
      const entryId = await branch.appendMessage(MESSAGE, BACKGROUND_CONTEXT);
      captured.push({ entryId, parentId, sessionId: session.metadata.id, statements: sent });
      parentId = entryId;
    }
    return captured;
  } finally {
    await database.close();
    await pool.end();
  }
}

export async function createSessions(
  store: SessionStore,
  { ids, messages, lastId }: InputOf<"createSessions">,
): Promise<void> {
  const { repo } = await store.group(GROUP);
  const like = lastId === undefined ? { messages } : { messages, lastId };
  await Promise.all(
    ids.map(async (id) => {
      const { session } = await startConversation(repo, { id, ...like });
      await session.close(BACKGROUND_CONTEXT);
    }),
  );
}

function listen(client: pg.PoolClient, onStatement: (statement: Sent[number]) => void): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  client.query = ((...args: unknown[]) => {
    const [pipeline] = args as [{ statements?: readonly WireStatement[] }];
    for (const statement of pipeline.statements ?? []) onStatement(asSent(statement));
    return query(...args);
  }) as typeof client.query;
}

/** In the form in which the driver sends it. */
function asSent({ sql, parameters }: WireStatement): Sent[number] {
  if (parameters.length === 0) return { sql };
  return { sql, parameters: parameters.map((value) => prepareValue(value) as string | null) };
}
