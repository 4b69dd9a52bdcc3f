/** Session files by the programs whose files are imported: what happens in them follows from a seed. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { SessionManager } from "@earendil-works/pi-coding-agent";
import { createNodeSqliteFactory, SqliteSessionRepo } from "@earendil-works/pi-session-backend-sqlite-node";
import fc from "fast-check";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { conversation, converse, type Step } from "./conversation.ts";
import { piRepo } from "./pi.ts";

/** How many sessions of each kind. */
export interface CorpusSize {
  /** By pi 1.6.0's SessionManager, one file each; every third has a fork in another file. */
  v3: number;
  /** By pi 0.87.1's JsonlSessionRepo, one file each; every third has a fork in another file. */
  v4: number;
  /** By pi 0.87.1's SqliteSessionRepo, one database each. */
  sqlite: number;
  /** By pi 0.87.1's SqliteSessionRepo, all in one database. */
  shared: number;
}

export async function writeCorpus(directory: string, size: CorpusSize, seed: number): Promise<void> {
  await writeV3(
    join(directory, "v3"),
    fc.sample(fc.array(move, { maxLength: 16 }), { seed, numRuns: size.v3 }),
  );
  await writeV4(join(directory, "v4"), fc.sample(conversation(undefined, 12), { seed, numRuns: size.v4 }));
  const databaseFactory = createNodeSqliteFactory();
  const alone = new SqliteSessionRepo({ directory: join(directory, "sqlite"), databaseFactory });
  await writeSqlite(
    alone,
    "alone",
    fc.sample(conversation(undefined, 12), { seed: seed + 1, numRuns: size.sqlite }),
  );
  const databasePath = join(directory, "shared.sqlite");
  const shared = new SqliteSessionRepo({ directory, databasePath, databaseFactory });
  await writeSqlite(
    shared,
    "shared",
    fc.sample(conversation(undefined, 12), { seed: seed + 2, numRuns: size.shared }),
  );
}

const MOVES = [
  "user",
  "user",
  "assistant",
  "assistant",
  "toolResult",
  "bash",
  "custom",
  "customMessage",
  "compaction",
  "branch",
  "summary",
  "reset",
  "label",
  "unlabel",
  "name",
  "model",
  "thinking",
  "usage",
  "edit",
  "omit",
] as const;

const move = fc.record({
  kind: fc.constantFrom(...MOVES),
  other: fc.nat(),
  text: fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.constantFrom("\0", "\ud800", "a\u2028b", "two\nlines", "é😀"),
  ),
  tokens: fc.nat({ max: 9_999 }),
});

type Move = typeof move extends fc.Arbitrary<infer T> ? T : never;

async function writeV3(directory: string, sessions: Move[][]): Promise<void> {
  await mkdir(directory);
  for (const [number, moves] of sessions.entries()) {
    const manager = SessionManager.create("/srv/app", directory);
    manager.appendModelChange("p", "m");
    manager.appendThinkingLevelChange("high");
    manager.appendMessage({ role: "user", content: `session ${number}`, timestamp: number });
    for (const one of moves) make(manager, one);
    if (number % 3 !== 0) continue;
    // pi goes on in the file of the fork.
    const leaf = manager.getLeafId();
    if (leaf === null || number % 2 === 0) {
      const file = manager.getSessionFile() as string;
      make(SessionManager.forkFrom(file, "/srv/other", directory), moves[0] ?? { ...FIRST, text: "forked" });
    } else {
      manager.createBranchedSession(leaf);
      for (const one of moves.slice(0, 5)) make(manager, one);
    }
  }
}

const FIRST: Move = { kind: "user", other: 0, text: "", tokens: 1 };

function make(manager: SessionManager, { kind, other, text, tokens }: Move): void {
  const entries = manager.getEntries();
  const any = entries[other % (entries.length || 1)];
  const branch = manager.getBranch();
  const onBranch = branch[other % (branch.length || 1)];
  const timestamp = 1_700_000_000_000 + tokens;
  const cost = { input: tokens / 7, output: 0.1, cacheRead: 0, cacheWrite: 0, total: tokens / 7 + 0.1 };
  const usage = { input: tokens, output: 1, cacheRead: 2, cacheWrite: 4, totalTokens: tokens + 7, cost };
  switch (kind) {
    case "user":
      manager.appendMessage({ role: "user", content: text, timestamp });
      return;
    case "assistant":
      manager.appendMessage({
        role: "assistant",
        content: [
          { type: "text", text },
          ...(tokens % 2 === 0 ? [{ type: "toolCall", id: "c", name: "read", arguments: {} }] : []),
        ],
        api: "a",
        provider: "p",
        model: "m",
        usage,
        stopReason: "stop",
        timestamp,
      } as Parameters<SessionManager["appendMessage"]>[0]);
      return;
    case "toolResult":
      manager.appendMessage({
        role: "toolResult",
        toolCallId: "c",
        toolName: "read",
        content: [{ type: "text", text }],
        isError: tokens % 2 === 0,
        ...(tokens % 3 === 0 ? { usage } : {}),
        timestamp,
      } as Parameters<SessionManager["appendMessage"]>[0]);
      return;
    case "bash":
      manager.appendMessage({
        role: "bashExecution",
        command: text,
        output: text,
        exitCode: 0,
        cancelled: false,
        truncated: false,
        timestamp,
      });
      return;
    case "custom":
      manager.appendCustomEntry("note", { text, tokens });
      return;
    case "customMessage":
      manager.appendCustomMessageEntry("hint", text, tokens % 2 === 0, { tokens });
      return;
    case "compaction":
      manager.appendCompaction(
        text,
        onBranch?.id ?? null,
        tokens,
        undefined,
        tokens % 2 === 0,
        tokens % 3 === 0 ? undefined : (usage as never),
      );
      return;
    case "branch":
      if (any !== undefined) manager.branch(any.id);
      return;
    case "summary":
      manager.branchWithSummary(any?.id ?? null, text, undefined, tokens % 2 === 0, usage as never);
      return;
    case "reset":
      if (tokens % 3 === 0) manager.resetLeaf();
      return;
    case "label":
    case "unlabel":
      if (any !== undefined) manager.appendLabelChange(any.id, kind === "label" ? text : undefined);
      return;
    case "name":
      manager.appendSessionInfo(text);
      return;
    case "model":
      manager.appendModelChange("p", text);
      return;
    case "thinking":
      manager.appendThinkingLevelChange("low");
      return;
    case "usage":
      manager.appendUsage("cache_warm", "p", "m", usage as never, text);
      return;
    case "edit":
    case "omit": {
      const target = branch.find(({ type }) => type === "custom_message");
      if (target !== undefined)
        manager.appendContextEdit(target.id, kind === "omit" ? null : { content: text });
    }
  }
}

async function writeV4(directory: string, sessions: Step[][]): Promise<void> {
  await mkdir(directory);
  const repo = piRepo(directory);
  for (const [number, steps] of sessions.entries()) {
    const session = await repo.create({ cwd: "/srv/app", id: `v4-${number}` }, context);
    await converse(session as never, steps);
    await session.close(context);
    if (number % 3 !== 0) continue;
    const fork = await repo.fork(session.metadata, { id: `v4-${number}-fork`, scope: "tree" }, context);
    await converse(fork as never, steps.slice(0, 5), "forked");
    await fork.close(context);
  }
}

async function writeSqlite(repo: SqliteSessionRepo, name: string, sessions: Step[][]): Promise<void> {
  for (const [number, steps] of sessions.entries()) {
    const session = await repo.create({ id: `${name}-${number}` }, context);
    await converse(session as never, steps);
    await session.close(context);
  }
  await repo.close(context);
}
