import { type Command, InvalidArgumentError, Option } from "commander";
import type { ReadonlyJsonObject } from "../contract/json.ts";
import type { PageOptions, PageSort, SessionPage } from "../postgres/page-sessions.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import type { SessionSummary } from "../postgres/session-summary.ts";
import { jsonObject, time, wholeNumber } from "./arguments.ts";
import { type ConnectionOptions, withRepo } from "./connection.ts";
import { context } from "./interruption.ts";
import {
  type Column,
  formatCost,
  formatCount,
  formatTime,
  oneLine,
  print,
  printJson,
  printTable,
  tell,
  visible,
} from "./output.ts";

interface ListOptions extends ConnectionOptions {
  sort: PageSort;
  order?: "asc" | "desc";
  limit: number;
  cursor?: string;
  all?: true;
  name?: string;
  cwd?: string;
  parent?: string;
  createdFrom?: number;
  createdTo?: number;
  modifiedFrom?: number;
  modifiedTo?: number;
  metadata?: ReadonlyJsonObject;
  json?: true;
}

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000;

export function addList(program: Command): void {
  program
    .command("list")
    .description("list the sessions, newest first, a page at a time")
    .addOption(
      new Option("--sort <key>", "what to sort by")
        .choices(["created", "modified", "name"])
        .default("created"),
    )
    .addOption(
      new Option("--order <order>", "direction (default: desc, by name asc)").choices(["asc", "desc"]),
    )
    .option("--limit <count>", `sessions of a page, up to ${MAX_LIMIT}`, pageLimit, DEFAULT_LIMIT)
    .option("--cursor <cursor>", "go on after the page that ended with this, with the same other options")
    .addOption(new Option("--all", "all pages").conflicts("limit"))
    .option("--name <prefix>", "only sessions whose name begins with this")
    .option("--cwd <directory>", "only sessions of this working directory")
    .option("--parent <id>", "only sessions that have this parent, such as forks")
    .option("--created-from <time>", "only sessions created at this time or later", time)
    .option("--created-to <time>", "only sessions created before this time", time)
    .option("--modified-from <time>", "only sessions last written at this time or later", time)
    .option("--modified-to <time>", "only sessions last written before this time", time)
    .option("--metadata <json>", "only sessions whose metadata contain this JSON object", jsonObject)
    .option("--json", "print JSON: the sessions, and the cursor of the page after them as `next`, or null")
    .addHelpText(
      "after",
      `
Times are UTC: 2026-03-01, 2026-03-01T09:30, or with an offset, or milliseconds since the epoch.
On a terminal that is too narrow, cells are shortened; on a pipe and with --json they are not.

Examples:
  pi-sessions list
  pi-sessions list --sort modified --limit 10 --cwd /srv/app
  pi-sessions list --created-from 2026-03-01 --created-to 2026-04-01 --all
  pi-sessions list --metadata '{"userId":"u1"}'
  pi-sessions list --json | jq '.sessions[].id'`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<ListOptions>();
      await withRepo(options, async (repo) => {
        const { sessions, next } = await readPages(repo, options);
        if (options.json) {
          printJson({ sessions: sessions.map(summaryJson), next: next ?? null });
          return;
        }
        printSessions(sessions);
        if (next !== undefined) tell(`There are more: add --cursor ${next}, or --all.`);
      });
    });
}

function pageLimit(text: string): number {
  const limit = wholeNumber(text);
  if (limit < 1 || limit > MAX_LIMIT) {
    throw new InvalidArgumentError(`Pass a whole number from 1 to ${MAX_LIMIT}.`);
  }
  return limit;
}

/** The page that was asked for, or with `--all` everything from there on. */
async function readPages(repo: PgSessionRepo, options: ListOptions): Promise<SessionPage> {
  const page = pageOptions(options);
  if (!options.all) return repo.page(page, context);
  const all: SessionSummary[] = [];
  for (let next: PageOptions | undefined = { ...page, limit: MAX_LIMIT }; next !== undefined; ) {
    const { sessions, next: cursor }: SessionPage = await repo.page(next, context);
    for (const session of sessions) all.push(session);
    next = cursor === undefined ? undefined : { ...next, cursor };
  }
  return { sessions: all, next: undefined };
}

function pageOptions({ name, parent, ...options }: ListOptions): PageOptions {
  const { sort, order, limit, cursor, cwd, metadata } = options;
  const { createdFrom, createdTo, modifiedFrom, modifiedTo } = options;
  const all = {
    ...{ sort, order, limit, cursor, cwd, metadata, namePrefix: name, parentSessionId: parent },
    ...{ createdFrom, createdTo, modifiedFrom, modifiedTo },
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

export function printSessions(summaries: readonly SessionSummary[]): void {
  if (summaries.length === 0) print("No sessions.");
  else printTable(COLUMNS, summaries);
}

const COLUMNS: Column<SessionSummary>[] = [
  // Gives way last, since `show` takes the start of an id.
  { head: "ID", cell: ({ metadata }) => visible(metadata.id), shrink: { min: 10, rank: 1 } },
  {
    head: "NAME",
    cell: ({ name, firstMessage }) => oneLine(name ?? firstMessage ?? "–", 40),
    shrink: { min: 6 },
  },
  {
    head: "DIRECTORY",
    cell: ({ metadata }) => oneLine(metadata.cwd ?? "–", 40),
    // As wide as its head.
    shrink: { min: 9, cut: "start" },
  },
  { head: "CREATED (UTC)", cell: ({ metadata }) => formatTime(metadata.createdAt) },
  { head: "MESSAGES", cell: ({ stats }) => formatCount(stats.messageCount), align: "right" },
  { head: "TOKENS", cell: ({ stats }) => formatCount(stats.usage.totalTokens), align: "right" },
  { head: "COST", cell: ({ stats }) => formatCost(stats.usage.cost.total), align: "right" },
];

function summaryJson({ metadata, stats, ...summary }: SessionSummary): object {
  return { ...metadata, ...summary, ...stats };
}
