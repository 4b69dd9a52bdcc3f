/**
 * An agent in a process of its own, which is killed at a commit: resumes what it finds open, asks what has not been
 * asked yet, and prints the number of commits.
 *
 * node killed-agent.ts connectionString schema sessionId [before|during|after:number]
 */
import { convertToLlm, AgentHarness as Harness } from "@earendil-works/pi-agent-core";
import {
  createModels,
  fauxAssistantMessage,
  fauxProvider,
  fauxText,
  fauxToolCall,
  Type,
} from "@earendil-works/pi-ai";
import {
  BACKGROUND_CONTEXT as context,
  openDatabase,
  PgStorage,
  SessionNotFoundError,
} from "../../src/index.ts";

const QUESTIONS = ["first?", "second?", "third?"];
const [connectionString, schema, id, killAt = ""] = process.argv.slice(2) as [
  string,
  string,
  string,
  string?,
];
const [when, count] = killAt.split(":");

let commits = 0;
const { beginTurn } = PgStorage.prototype;
PgStorage.prototype.beginTurn = function (this: PgStorage) {
  const turn = beginTurn.call(this);
  const commit = turn.commit.bind(turn);
  turn.commit = async (writes, commitContext) => {
    commits++;
    const isTheOne = commits === Number(count);
    if (isTheOne && when === "before") die();
    const result = commit(writes, commitContext);
    // Sent, and perhaps on its way.
    if (isTheOne && when === "during") setImmediate(die);
    await result;
    if (isTheOne && when === "after") die();
    return result;
  };
  return turn;
};

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

const faux = fauxProvider({ api: "faux" });
faux.setResponses(
  Array.from(
    { length: 100 },
    () =>
      ({ messages }: { messages: readonly { role: string }[] }) =>
        messages.at(-1)?.role === "toolResult"
          ? fauxAssistantMessage("It is so.")
          : fauxAssistantMessage([fauxText("Let me see."), fauxToolCall("look", { where: "here" })], {
              stopReason: "toolUse",
            }),
  ),
);
const models = createModels();
models.setProvider(faux.provider);

const database = await openDatabase({ connectionString, schema });
const repo = await database.repo("default");
const session = await repo.open({ id }, context).catch((error: unknown) => {
  if (error instanceof SessionNotFoundError) return repo.create({ id }, context);
  throw error;
});
const { harness, open } = await Harness.create(
  {
    session,
    models,
    model: faux.getModel(),
    tools: [
      {
        name: "look",
        label: "Look",
        description: "Looks somewhere.",
        parameters: Type.Object({ where: Type.String() }),
        execute: async () => ({ content: [{ type: "text", text: "seen" }], details: null }),
      },
    ],
    activeToolNames: ["look"],
    systemPrompt: "You look.",
    toProviderMessages: convertToLlm,
  },
  context,
);
const lane = await harness.lane("main", context);
if (open.length > 0) await lane.resume(context);
for (const question of QUESTIONS) {
  const asked = await lane.findEntries({ type: "message" }, context);
  if (asked.some((entry) => JSON.stringify(entry).includes(question))) continue;
  await lane.prompt(question, undefined, context);
}
await harness.close(context);
await database.close();
console.log(commits);
