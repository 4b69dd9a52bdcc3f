import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type AgentMessage,
  type AssistantMessage,
  branchTip,
  buildSessionContext,
  BACKGROUND_CONTEXT as context,
  emptyUsage,
  insertEntry,
  type NewEntry,
  type SessionContextOptions,
  type StopReason,
  setValue,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;

beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const user = (content: string): AgentMessage => ({ role: "user", content, timestamp: 1 });

const assistant = (text: string, stopReason: StopReason): AssistantMessage => ({
  role: "assistant",
  content: [{ type: "text", text }],
  api: "api",
  provider: "provider",
  model: "model",
  usage: emptyUsage(),
  stopReason,
  timestamp: 1,
});

// Distributes over the entry types.
type Node<T = NewEntry> = T extends unknown ? Omit<T, "id" | "parentId"> : never;

const message = (content: AgentMessage): Node => ({ type: "message", message: content });

/** What a model gets at the end of one branch with these entries, read back from the database. */
async function contextOf(nodes: Node[], options?: SessionContextOptions): Promise<unknown[]> {
  const session = await (await at.database.repo("default")).create({}, context);
  const writes = nodes.map((node, index) =>
    insertEntry({ ...node, id: `e${index}`, parentId: index === 0 ? null : `e${index - 1}` } as NewEntry),
  );
  await session.mutate(
    (mutator) => mutator.commit([...writes, setValue(branchTip("main"), `e${nodes.length - 1}`)], context),
    context,
  );
  const branch = await session.branch("main", context);
  const path = (await branch?.findEntries({ order: "oldestFirst" }, context)) ?? [];
  const messages = await buildSessionContext(path, options, context);
  await session.close(context);
  return messages;
}

test("messages come in the order of the path", async () => {
  expect(await contextOf([message(user("a")), message(assistant("b", "stop")), message(user("c"))])).toEqual([
    user("a"),
    assistant("b", "stop"),
    user("c"),
  ]);
});

test.each(["error", "aborted", "deferred"] as const)(
  "an assistant message that ended with %s is left out",
  async (reason) => {
    expect(await contextOf([message(user("a")), message(assistant("b", reason))])).toEqual([user("a")]);
  },
);

test("the last compaction replaces all before it by its summary and what it kept", async () => {
  const compaction = (summary: string, retainedTail: AgentMessage[]): Node => ({
    type: "compaction",
    summary,
    retainedTail,
    tokensBefore: 42,
    fromHook: false,
  });
  const messages = await contextOf([
    message(user("a")),
    compaction("first", []),
    message(user("b")),
    compaction("second", [user("b"), assistant("cut off", "aborted")]),
    message(user("c")),
  ]);
  expect(messages).toEqual([
    { role: "compactionSummary", summary: "second", tokensBefore: 42, timestamp: expect.any(Number) },
    user("b"),
    user("c"),
  ]);
});

test("a branch summary becomes a message, an empty one does not", async () => {
  const summary = (text: string): Node => ({
    type: "branch_summary",
    fromId: null,
    summary: text,
    fromHook: false,
  });
  expect(await contextOf([summary("tried x"), summary("")])).toEqual([
    { role: "branchSummary", summary: "tried x", fromId: null, timestamp: expect.any(Number) },
  ]);
});

test("a custom entry speaks through its projector only", async () => {
  const custom = (customType: string): Node => ({ type: "custom", customType, data: { text: customType } });
  const nodes = [custom("note"), custom("silent"), custom("constructor"), custom("skipped")];
  expect(await contextOf(nodes)).toEqual([]);
  const entryProjectors = {
    note: async (entry: { data?: unknown }) => [user((entry.data as { text: string }).text), user("again")],
    skipped: () => undefined,
  };
  expect(await contextOf(nodes, { entryProjectors })).toEqual([user("note"), user("again")]);
});
