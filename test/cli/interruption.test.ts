import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context } from "../../src/index.ts";
import { scratchDirectory } from "../embedded/scratch.ts";
import { openTestDatabase } from "../support/database.ts";
import { type Started, startCommand } from "./pi-sessions.ts";

/** Makes a command take its standard error for a terminal, so that it draws a bar. */
const ON_A_TERMINAL = { NODE_OPTIONS: "--import=data:text/javascript,process.stderr.isTTY=true" };

function untilTold({ process: child }: Started, text: string): Promise<void> {
  return new Promise((resolve) => {
    let told = "";
    child.stderr.on("data", (chunk: string) => {
      told += chunk;
      if (told.includes(text)) resolve();
    });
  });
}

/** Takes connections and never answers. */
async function silentServer() {
  const connected = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    connected.resolve();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `postgresql://u:secret@127.0.0.1:${(server.address() as AddressInfo).port}/x`,
    connected: connected.promise,
    [Symbol.dispose]: () => void server.close(),
  };
}

test("Ctrl-C during an import leaves nothing of the file, and the terminal as it was", async () => {
  await using directory = await scratchDirectory();
  await using at = await openTestDatabase();
  const header = { type: "session", version: 3, id: "big", timestamp: "2025-12-01T09:30:00.000Z", cwd: "/" };
  const lines = Array.from({ length: 40_000 }, (_, index) => ({
    type: "message",
    id: `e${index}`,
    parentId: index === 0 ? null : `e${index - 1}`,
    timestamp: "2025-12-01T09:30:01.000Z",
    message: { role: "user", content: "x".repeat(400), timestamp: 1 },
  }));
  const file = join(directory.path, "big.jsonl");
  await writeFile(file, [header, ...lines].map((line) => `${JSON.stringify(line)}\n`).join(""));
  const started = startCommand(
    ["import", file, "--database-url", at.connectionString, "--schema", at.schema],
    ON_A_TERMINAL,
  );
  await untilTold(started, "Importing");
  started.process.kill("SIGINT");
  const { signal, stdout, stderr } = await started.finished;
  expect({ signal, stdout }).toEqual({ signal: "SIGINT", stdout: "" });
  expect(stderr).toContain("Stopping.");
  expect(stderr).not.toContain("\u001b[?25l"); // hides the cursor
  expect(stderr).not.toContain("\u001b[?7l"); // ends the wrapping of lines
  expect(await (await at.database.repo("default")).list(undefined, context)).toEqual([]);
});

test("Ctrl-C ends the wait for a server that does not answer", async () => {
  using server = await silentServer();
  const started = startCommand(["list", "--database-url", server.url]);
  await server.connected;
  const since = Date.now();
  started.process.kill("SIGINT");
  expect(await started.finished).toMatchObject({ signal: "SIGINT", stdout: "" });
  expect(Date.now() - since).toBeLessThan(5_000);
});

test("a server that does not answer is given up by itself", async () => {
  using server = await silentServer();
  const { code, stdout, stderr } = await startCommand(["list", "--debug", "--database-url", server.url])
    .finished;
  expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
  expect(stderr).toContain("cannot be reached");
  expect(stderr).not.toContain("secret");
});

test("a second Ctrl-C does not wait for what cannot be interrupted", async () => {
  await using at = await openTestDatabase();
  const holder = await at.admin.connect();
  try {
    await holder.query("begin");
    // As a migration that another process runs.
    await holder.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [
      `pi-session-postgres ${at.schema}`,
    ]);
    const started = startCommand(["migrate", "--database-url", at.connectionString, "--schema", at.schema]);
    await untilWaiting();
    started.process.kill("SIGINT");
    await untilTold(started, "Stopping.");
    const since = Date.now();
    started.process.kill("SIGINT");
    expect(await started.finished).toMatchObject({ signal: "SIGINT" });
    expect(Date.now() - since).toBeLessThan(2_000);
  } finally {
    await holder.query("rollback");
    holder.release();
  }

  async function untilWaiting(): Promise<void> {
    for (;;) {
      const { rowCount } = await at.admin.query(
        "select from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory' and not l.granted and a.application_name = 'pi-sessions'",
      );
      if (rowCount) return;
      await sleep(20);
    }
  }
});
