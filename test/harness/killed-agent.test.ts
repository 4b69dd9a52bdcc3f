import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

const AGENT = fileURLToPath(new URL("killed-agent.ts", import.meta.url));
const BOUNDARIES = 21;

let at: TestDatabase;
/** Commits of an agent that nobody kills, and what it leaves behind. */
let commits: number;
let undisturbed: Awaited<ReturnType<typeof leftBehind>>;

beforeAll(async () => {
  at = await openTestDatabase();
  commits = Number((await runAgent("undisturbed")).stdout);
  undisturbed = await leftBehind("undisturbed");
});
afterAll(() => at[Symbol.asyncDispose]());

function runAgent(id: string, killAt = ""): Promise<{ signal: unknown; stdout: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [AGENT, at.connectionString, at.schema, id, killAt], (error, stdout) =>
      resolve({ signal: error?.signal ?? null, stdout }),
    );
  });
}

/** Everything but what differs from run to run. */
async function leftBehind(id: string) {
  const storage = await (await at.database.repo("default")).openStorage({ id }, context);
  const entries = await storage.scanEntries({}, context);
  const usage = await storage.scanUsage({}, context);
  const stats = await storage.getStats(context);
  await storage.close(context);
  const messages = entries.flatMap((entry) =>
    entry.type === "message" ? [{ ...entry, ...entry.message }] : [],
  );
  const assistants = messages.filter(({ role }) => role === "assistant");
  return {
    // A call to the model that a kill interrupted stays in the tree as such; the harness then calls again.
    conversation: messages
      .filter((message) => !(message.role === "assistant" && isInterrupted(message.stopReason)))
      .map(({ role }) => role),
    questions: messages.flatMap((message) =>
      message.role === "user" ? [JSON.stringify(message.content)] : [],
    ),
    isCounted: stats.messageCount === messages.length && entries.length === messages.length,
    isChain: entries.every((entry, index) => entry.parentId === (entries[index - 1]?.id ?? null)),
    isBilledOnce:
      new Set(usage.map(({ entryId }) => entryId)).size === usage.length &&
      assistants.every((assistant) => usage.some(({ entryId }) => entryId === assistant.id)) &&
      usage.length === assistants.length,
  };
}

function isInterrupted(stopReason: string): boolean {
  return stopReason === "aborted" || stopReason === "error";
}

test("an agent that nobody kills asks three questions", () => {
  expect(undisturbed).toMatchObject({
    conversation: Array(3).fill(["user", "assistant", "toolResult", "assistant"]).flat(),
    isCounted: true,
    isChain: true,
    isBilledOnce: true,
  });
  expect(commits).toBeGreaterThan(BOUNDARIES / 3);
});

const moments = ["before", "during", "after"] as const;
const points = Array.from({ length: BOUNDARIES }, (_, point) => ({
  moment: moments[point % moments.length] as string,
  point,
}));

test.concurrent.each(points)(
  "killed $moment a commit (point $point) and resumed by a new process, it has lost and doubled nothing",
  async ({ moment, point }) => {
    const id = `killed ${point}`;
    // Spread over all of the conversation.
    const at = 1 + Math.floor((point * (commits - 1)) / (BOUNDARIES - 1));
    expect(await runAgent(id, `${moment}:${at}`)).toMatchObject({ signal: "SIGKILL" });
    expect(await runAgent(id)).toMatchObject({ signal: null });
    expect(await leftBehind(id)).toEqual(undisturbed);
  },
);
