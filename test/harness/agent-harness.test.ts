/**
 * The same conversation with pi's real AgentHarness, once on a PgSessionRepo and once in memory, must leave the
 * same session behind and show the model the same.
 */
import {
  type AgentHarness,
  type AgentHarnessTool,
  type AgentLane,
  type AgentMessage,
  convertToLlm,
  AgentHarness as Harness,
  MemorySessionRepo,
} from "@earendil-works/pi-agent-core";
import {
  createModels,
  fauxAssistantMessage,
  fauxProvider,
  fauxText,
  fauxThinking,
  fauxToolCall,
  Type,
} from "@earendil-works/pi-ai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  buildSessionContext,
  BACKGROUND_CONTEXT as context,
  type Session,
  type SessionRepo,
  type UsageRow,
  value,
} from "../../src/index.ts";
import type { PgSessionRepo } from "../../src/postgres/repo.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

/** Binary output and cut strings are everyday life of an agent. */
const AWKWARD = "\0 \ud83d \u{1f600}";
/** Everything that the harness keeps as values, whether or not it is there at the end. */
const NAMESPACES = [
  "pi.branch.tip",
  "pi.entry.label",
  "pi.lane.config",
  "pi.lane.state",
  "pi.op.meta",
  "pi.op.preparation",
  "pi.op.state",
  "pi.op.tool_args",
  "pi.op.tool_memo",
  "pi.pending.entry",
  "pi.pending.tool_output",
  "pi.result",
  "pi.session.name",
];

/** What a conversation left behind and what was seen on the way. */
interface Conversation {
  readonly session: Session;
  readonly duringTool: unknown;
  readonly afterwards: unknown;
  /** What the model was shown, request by request. */
  readonly requests: readonly (readonly AgentMessage[])[];
  /** What the harness said about each usage row. */
  readonly usage: readonly UsageRow[];
}

let at: TestDatabase;
let repo: PgSessionRepo;
let onPostgres: Conversation;
let inMemory: Conversation;

beforeAll(async () => {
  at = await openTestDatabase();
  repo = await at.database.repo("default");
  onPostgres = await converse(repo);
  inMemory = await converse(new MemorySessionRepo());
});
afterAll(() => at[Symbol.asyncDispose]());

describe("a conversation with pi's AgentHarness: a tool, three prompts, a compaction, a restart", () => {
  test("leaves the entries, values and totals that it leaves in memory", () => {
    expect(normalized(onPostgres.afterwards)).toEqual(normalized(inMemory.afterwards));
  });

  test("has the state while a tool runs that it has in memory", () => {
    expect(normalized(onPostgres.duringTool)).toEqual(normalized(inMemory.duringTool));
  });

  test("shows the model what it shows it in memory", () => {
    expect(normalized(onPostgres.requests)).toEqual(normalized(inMemory.requests));
  });

  test("is a conversation as promised, with the awkward text intact", async () => {
    const entries = await onPostgres.session.findEntries({ order: "asc" }, context);
    const kinds = entries.map((entry) => (entry.type === "message" ? entry.message.role : entry.type));
    expect(kinds).toEqual([
      ...["user", "assistant", "toolResult", "assistant"],
      ...["user", "assistant"],
      "compaction",
      ...["user", "assistant"],
    ]);
    expect(entries[0]).toMatchObject({ message: { content: [{ text: `weather? ${AWKWARD}` }] } });
    expect(entries[1]).toMatchObject({
      message: { content: [{}, { arguments: { city: `Bern ${AWKWARD}` } }] },
    });
    expect(entries[2]).toMatchObject({ message: { content: [{ text: `rain ${AWKWARD}` }], isError: false } });
    expect(entries.at(-1)).toMatchObject({ message: { stopReason: "stop" } });
  });

  test("is shown to the model as buildSessionContext builds it", async () => {
    const main = await onPostgres.session.branch("main", context);
    const path = (await main?.findEntries({ order: "oldestFirst" }, context)) ?? [];
    const withoutAnswer = path.slice(0, -1);
    const built = await buildSessionContext(withoutAnswer, undefined, context);
    expect(built[0]).toMatchObject({ role: "compactionSummary" });
    expect(built).toEqual(onPostgres.requests.at(-1));
  });

  test("keeps in the ledger the rows that the harness reported", async () => {
    const storage = await repo.openStorage(onPostgres.session.metadata, context);
    const ledger = await storage.scanUsage({}, context);
    await storage.close(context);
    expect(ledger).toEqual(onPostgres.usage);
    expect(normalized(ledger)).toEqual(normalized(inMemory.usage));
  });

  test("leaves nothing of its operations behind", async () => {
    const { rows } = await at.admin.query<{ namespace: string }>(`
      select distinct namespace from (
        select namespace from "${at.schema}".scalar_values union all select namespace from "${at.schema}".list_values
      ) as state order by namespace
    `);
    expect(rows.map(({ namespace }) => namespace)).toEqual([
      "pi.branch.tip",
      "pi.entry.label",
      "pi.lane.config",
      "pi.lane.state",
      "pi.result",
      "pi.session.name",
    ]);
  });
});

async function converse(sessions: SessionRepo): Promise<Conversation> {
  const faux = fauxProvider({ api: "faux", tokenSize: { min: 3, max: 3 } });
  faux.setResponses([
    fauxAssistantMessage(
      [fauxText("Let me see."), fauxToolCall("weather", { city: `Bern ${AWKWARD}` }, { id: "call" })],
      { stopReason: "toolUse" },
    ),
    fauxAssistantMessage("It rains."),
    fauxAssistantMessage([fauxThinking("Hm."), fauxText("Because of the clouds.")]),
    fauxAssistantMessage("They talked about the weather."),
    fauxAssistantMessage("And why it is so."),
    fauxAssistantMessage("You are welcome."),
  ]);
  const requests: AgentMessage[][] = [];
  const usage: UsageRow[] = [];
  let duringTool: unknown;

  const attach = async (session: Session): Promise<{ harness: AgentHarness; lane: AgentLane }> => {
    const models = createModels();
    models.setProvider(faux.provider);
    const weather = weatherTool(async () => {
      duringTool = await stateOf(session);
    });
    const { harness, open } = await Harness.create(
      {
        session,
        models,
        model: faux.getModel(),
        tools: [weather],
        activeToolNames: ["weather"],
        systemPrompt: "You know the weather.",
        compaction: { enabled: true, reserveTokens: 1_000, keepRecentTokens: 1 },
        toProviderMessages: (messages) => {
          requests.push(structuredClone(messages));
          return convertToLlm(messages);
        },
      },
      context,
    );
    expect(open).toEqual([]);
    harness.events.on("usage", ({ row }) => void usage.push(row));
    return { harness, lane: await harness.lane("main", context) };
  };

  const session = await sessions.create({}, context);
  const { harness, lane } = await attach(session);
  await harness.setName(`About ${AWKWARD}`, context);
  expect(await lane.prompt(`weather? ${AWKWARD}`, undefined, context)).toMatchObject(COMPLETED);
  expect(await lane.prompt("why?", undefined, context)).toMatchObject(COMPLETED);
  for (const dollars of [0.1, 0.2, 0.3]) {
    await lane.recordUsage(spent(dollars), { details: { reason: AWKWARD } }, context);
  }
  const tip = await lane.getTipId(context);
  await harness.setLabel(tip ?? "", `here ${AWKWARD}`, context);
  expect(await lane.compact(undefined, context)).toMatchObject({
    ok: true,
    value: { compaction: { status: "completed" } },
  });
  await harness.close(context); // and with it the session

  const reopened = await sessions.open(session.metadata, context);
  const restarted = await attach(reopened);
  expect(await restarted.lane.prompt("thanks", undefined, context)).toMatchObject(COMPLETED);
  await restarted.harness.close(context);
  expect(faux.getPendingResponseCount()).toBe(0);

  const kept = await sessions.open(session.metadata, context);
  return { session: kept, duringTool, afterwards: await stateOf(kept), requests, usage };
}

const COMPLETED = { ok: true, value: { status: "completed" } };

/** Uses what the harness keeps for a tool: a memo and a checkpoint. */
function weatherTool(onRun: () => Promise<void>) {
  const parameters = Type.Object({ city: Type.String() });
  const tool: AgentHarnessTool<object | undefined, typeof parameters> = {
    name: "weather",
    label: "Weather",
    description: "Tells the weather of a city.",
    parameters,
    async execute(_id, { city }, onUpdate, _toolContext, invocation) {
      await invocation.setMemo("asked", city);
      await onRun();
      onUpdate({ content: [{ type: "text", text: "looking" }], details: null }, { checkpoint: true });
      return { content: [{ type: "text", text: `rain ${AWKWARD}` }], details: { city } };
    },
  };
  return tool as AgentHarnessTool<object | undefined>;
}

function spent(dollars: number) {
  return {
    input: 1,
    output: 1,
    cacheRead: 0,
    cacheWrite: 0,
    totalTokens: 2,
    cost: { input: dollars, output: 0, cacheRead: 0, cacheWrite: 0, total: dollars },
  };
}

async function stateOf(session: Session): Promise<unknown> {
  const values: Record<string, unknown> = {};
  for (const namespace of NAMESPACES) values[namespace] = await session.scanValues(value(namespace), context);
  const main = await session.branch("main", context);
  const path = (await main?.findEntries({ order: "oldestFirst" }, context)) ?? [];
  return {
    entries: await session.findEntries({ order: "asc" }, context),
    values,
    stats: await session.getStats(context),
    context: await buildSessionContext(path, undefined, context),
  };
}

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const TIMES = new Set(["timestamp", "startedAt", "endedAt"]);

/** Ids become the number of their first appearance, also inside of keys; times become 0. */
function normalized(state: unknown): unknown {
  const numbers = new Map<string, string>();
  const text = JSON.stringify(state, (name, data) => (TIMES.has(name) ? 0 : data)).replaceAll(UUID, (id) => {
    const number = numbers.get(id) ?? `id-${numbers.size + 1}`;
    numbers.set(id, number);
    return number;
  });
  return JSON.parse(text);
}
