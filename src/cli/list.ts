import type { Command } from "commander";
import type { SessionSummary } from "../postgres/session-summary.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { context } from "./interruption.ts";
import {
  type Column,
  formatCost,
  formatCount,
  formatTime,
  oneLine,
  printJson,
  printTable,
  visible,
} from "./output.ts";

interface ListOptions extends ConnectionOptions {
  cwd?: string;
  json?: true;
}

export function addList(program: Command): void {
  program
    .command("list")
    .description("list the sessions, newest first")
    .option("--cwd <directory>", "only sessions of this working directory")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  pi-sessions list
  pi-sessions list --cwd /srv/app
  pi-sessions list --json | jq '.[].id'`,
    )
    .action(async (_options, command: Command) => {
      const { cwd, json, ...connection } = command.optsWithGlobals<ListOptions>();
      await withRepo(connection, async (repo) => {
        const summaries = await repo.summarize(cwd === undefined ? undefined : { cwd }, context);
        if (json) printJson(summaries.map(summaryJson));
        else printSessions(summaries);
      });
    });
}

export function printSessions(summaries: readonly SessionSummary[]): void {
  printTable(COLUMNS, summaries);
}

const COLUMNS: Column<SessionSummary>[] = [
  { head: "ID", cell: ({ metadata }) => visible(metadata.id) },
  { head: "NAME", cell: ({ name, firstMessage }) => oneLine(name ?? firstMessage ?? "–", 40) },
  { head: "DIRECTORY", cell: ({ metadata }) => oneLine(metadata.cwd ?? "–", 40) },
  { head: "CREATED", cell: ({ metadata }) => formatTime(metadata.createdAt) },
  { head: "MESSAGES", cell: ({ stats }) => formatCount(stats.messageCount), align: "right" },
  { head: "TOKENS", cell: ({ stats }) => formatCount(stats.usage.totalTokens), align: "right" },
  { head: "COST", cell: ({ stats }) => formatCost(stats.usage.cost.total), align: "right" },
];

function summaryJson({ metadata, name, firstMessage, modifiedAt, stats }: SessionSummary): object {
  return { ...metadata, name, firstMessage, modifiedAt, ...stats };
}
