import type { Command } from "commander";
import { branchTips, entryLabel, value } from "../contract/address.ts";
import type { Entry } from "../contract/entry.ts";
import { BranchNotFoundError } from "../contract/errors.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionStats } from "../contract/usage.ts";
import type { PgSession } from "../postgres/repo.ts";
import type { PgSessionMetadata } from "../postgres/session-row.ts";
import { buildSessionContext } from "../session/model-context.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { context } from "./interruption.ts";
import { describeMessage } from "./message-text.ts";
import {
  formatCost,
  formatCount,
  formatTime,
  heading,
  oneLine,
  print,
  printJson,
  visible,
} from "./output.ts";
import { resolveSessionId } from "./session-id.ts";
import { renderTree } from "./tree.ts";

interface ShowOptions extends ConnectionOptions {
  branch?: string;
  context?: true;
  json?: true;
}

export function addShow(program: Command): void {
  program
    .command("show")
    .description("show a session as a tree with branch tips and labels")
    .argument("<id>", "session id, or a unique prefix of it")
    .option("--branch <name>", "only the path of this branch")
    .option("--context", "the messages that a model would get at the end of the branch (default: main)")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions show 01a2
  pi-sessions show 01a2 --branch review
  pi-sessions show 01a2 --context --json

Times are UTC. Forks within forks are indented up to 60 columns; "…" stands for what is cut off.`,
    )
    .action(async (id: string, _options, command: Command) => {
      const options = command.optsWithGlobals<ShowOptions>();
      await withRepo(options, async (repo) => {
        const session = await repo.open({ id: await resolveSessionId(repo, id) }, context);
        if (options.context) await showContext(session, options.branch ?? "main", options);
        else await showEntries(session, options);
      });
    });
}

async function showEntries(session: PgSession, options: ShowOptions): Promise<void> {
  const [name, stats, tips, labels] = await Promise.all([
    session.getName(context),
    session.getStats(context),
    session.scanValues(branchTips(), context),
    session.scanValues(value<string>(entryLabel("").namespace), context),
  ]);
  const branches = tips.map(({ address, value: tip }) => ({ name: address.key, tip }));
  const labelOf = new Map(labels.map(({ address, value: label }) => [address.key, label]));
  const entries =
    options.branch === undefined
      ? await session.findEntries({ order: "asc" }, context)
      : await pathOf(session, options.branch);
  if (options.json) {
    printJson({ ...session.metadata, name, stats, branches, labels: Object.fromEntries(labelOf), entries });
    return;
  }
  if (name !== undefined) print(heading(visible(name)));
  printHeader(session.metadata, stats, options);
  print();
  for (const line of renderTree(entries, branches, labelOf)) print(line);
}

function printHeader(
  metadata: PgSessionMetadata,
  { messageCount, usage }: SessionStats,
  { branch }: ShowOptions,
): void {
  print(
    `${visible(metadata.id)}  created ${formatTime(metadata.createdAt)} UTC  ` +
      `${formatCount(messageCount)} messages  ${formatCount(usage.totalTokens)} tokens  ` +
      `${formatCost(usage.cost.total)}${branch === undefined ? "" : " in the whole session"}`,
  );
  const parent = metadata.parentSessionId ?? metadata.legacyParentSessionPath;
  if (parent !== undefined) print(`parent ${visible(parent)}`);
  if (metadata.metadata !== undefined) print(`metadata ${visible(JSON.stringify(metadata.metadata))}`);
}

async function showContext(session: PgSession, branch: string, options: ShowOptions): Promise<void> {
  const messages = await buildSessionContext(await pathOf(session, branch), undefined, context);
  if (options.json) printJson(messages);
  else messages.forEach(printMessage);
}

async function pathOf(session: PgSession, name: string): Promise<Entry[]> {
  const branch = await session.branch(name, context);
  if (branch === undefined) throw new BranchNotFoundError(name);
  return branch.findEntries({ order: "oldestFirst" }, context);
}

function printMessage(message: AgentMessage): void {
  const { title, text } = describeMessage(message);
  print(heading(oneLine(title)));
  print(visible(text));
  print();
}
