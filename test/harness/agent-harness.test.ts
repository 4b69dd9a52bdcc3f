import {
  AgentHarness,
  type AgentHarnessTool,
  DEFAULT_COMPACTION_SETTINGS,
  type Session as PiSession,
} from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { MemorySessionRepo } from "@earendil-works/pi-agent-core/harness/session";
import { createModels } from "@earendil-works/pi-ai";
import { fauxAssistantMessage, fauxProvider, fauxToolCall } from "@earendil-works/pi-ai/providers/faux";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildSessionContext, BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;

beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const lookUp: AgentHarnessTool<undefined> = {
  name: "look_up",
  label: "Look up",
  description: "Looks a word up.",
  parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
  execute: async (_id, parameters, _onUpdate, _toolContext, invocation) => {
    await invocation.setMemo("word", JSON.stringify(parameters));
    return {
      content: [{ type: "text", text: `a \0 binary \ud800 answer` }],
      details: { parameters: JSON.stringify(parameters) },
    };
  },
};

/** Three prompts, a tool call in the second, and a compaction after them. */
async function converse(session: PiSession): Promise<unknown> {
  const faux = fauxProvider({
    api: "acme-api",
    provider: "acme",
    models: [{ id: "model-1", cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 } }],
  });
  faux.setResponses([
    fauxAssistantMessage("first answer"),
    fauxAssistantMessage([fauxToolCall("look_up", { word: "tree" }, { id: "call-1" })], {
      stopReason: "toolUse",
    }),
    fauxAssistantMessage("second answer"),
    fauxAssistantMessage("third answer"),
    // The kept tail begins within a turn, so that turn gets a summary of its own.
    fauxAssistantMessage("what was said so far"),
    fauxAssistantMessage("how the last turn began"),
  ]);
  const models = createModels();
  models.setProvider(faux.provider);
  const { harness } = await AgentHarness.create(
    {
      session,
      models,
      model: faux.getModel(),
      tools: [lookUp],
      activeToolNames: ["look_up"],
      systemPrompt: "You are a test.",
      compaction: { ...DEFAULT_COMPACTION_SETTINGS, keepRecentTokens: 1 },
    },
    BACKGROUND_CONTEXT,
  );
  const lane = await harness.lane("main", BACKGROUND_CONTEXT);
  for (const prompt of ["one", "look up a tree", "three"]) {
    expect(await lane.prompt(prompt, undefined, BACKGROUND_CONTEXT)).toMatchObject({ ok: true });
  }
  expect(await lane.compact(undefined, BACKGROUND_CONTEXT)).toMatchObject({
    ok: true,
    value: { compaction: { status: "completed" } },
  });
  expect(faux.getPendingResponseCount()).toBe(0);
  const observed = await observe(session);
  await harness.close(BACKGROUND_CONTEXT);
  return observed;
}

const NAMESPACES = [
  "pi.branch.tip",
  "pi.lane.config",
  "pi.lane.state",
  "pi.result",
  "pi.session.name",
  "pi.entry.label",
  "pi.op.meta",
  "pi.op.state",
  "pi.op.tool_args",
  "pi.op.tool_memo",
  "pi.op.preparation",
  "pi.pending.entry",
  "pi.pending.tool_output",
];

async function observe(session: PiSession): Promise<unknown> {
  const values = [];
  for (const namespace of NAMESPACES) {
    values.push(...(await session.scanValues({ namespace, key: "", kind: "value" }, BACKGROUND_CONTEXT)));
  }
  const branch = await session.branch("main", BACKGROUND_CONTEXT);
  const path = (await branch?.findEntries({ order: "oldestFirst" }, BACKGROUND_CONTEXT)) ?? [];
  return normalize({
    entries: await session.findEntries({ order: "asc" }, BACKGROUND_CONTEXT),
    values,
    stats: await session.getStats(BACKGROUND_CONTEXT),
    context: await buildSessionContext(path, undefined, context),
  });
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIMES = new Set(["timestamp", "startedAt", "endedAt"]);

/** Names ids by the order in which they turn up, blanks times, and leaves what JSON keeps. */
function normalize(observed: unknown): unknown {
  const names = new Map<string, string>();
  const nameOf = (id: string) => {
    const name = names.get(id) ?? `id-${names.size + 1}`;
    names.set(id, name);
    return name;
  };
  const text = JSON.stringify(observed, (key, value: unknown) =>
    TIMES.has(key) && typeof value === "number" ? "some time" : value,
  );
  return JSON.parse(text.replaceAll(UUID, nameOf));
}

test("pi's harness leaves the same session in PostgreSQL as in memory", async () => {
  const memory = await converse(await new MemorySessionRepo().create({}, BACKGROUND_CONTEXT));
  const repo = await at.database.repo("default");
  const session = await repo.create({}, context);
  const stored = await converse(session);
  expect(stored).toEqual(memory);
  expect(stored).toMatchObject({ stats: { messageCount: 8 } });
  const types = (stored as { entries: { type: string }[] }).entries.map(({ type }) => type);
  expect(types.filter((type) => type === "compaction")).toHaveLength(1);
  await session.close(context);
  const reopened = await repo.open(session.metadata, context);
  expect(await observe(reopened)).toEqual(memory);
  await reopened.close(context);
});
