import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postmasterPid, query, scratchDirectory, startScratchServer, untilRefusing } from "./scratch.ts";

/** One cluster for all tests of this file: each begins and ends with its server stopped. */
let directory: Awaited<ReturnType<typeof scratchDirectory>>;
let dataDir: string;

beforeAll(async () => {
  directory = await scratchDirectory();
  dataDir = join(directory.path, "new", "data");
  const server = await startScratchServer(dataDir);
  await query(server.connectionString, "create table kept (text text)");
  await server.stop();
});

afterAll(() => directory[Symbol.asyncDispose]());

describe("a start", () => {
  test("finds the data and the connection string of the one before", async () => {
    const first = await startScratchServer(dataDir);
    await query(first.connectionString, "insert into kept values ('kept')");
    await first.stop();

    const second = await startScratchServer(dataDir);
    expect(second.connectionString).toBe(first.connectionString);
    expect(await query(second.connectionString, "select text from kept")).toContain("kept");
    await second.stop();
  });

  test("takes another port when the last one is occupied", async () => {
    const first = await startScratchServer(dataDir);
    const other = await startScratchServer(join(directory.path, "other"));
    const port = new URL(other.connectionString).port;
    await first.stop();
    await writeFile(join(dataDir, "port"), port);

    const second = await startScratchServer(dataDir);
    expect(new URL(second.connectionString).port).not.toBe(port);
    expect(await query(second.connectionString, "select count(*) from kept")).toHaveLength(1);
    await Promise.all([second.stop(), other.stop()]);
  });

  test("is durable unless told otherwise, and lets nobody in from elsewhere or without the password", async () => {
    const server = await startScratchServer(dataDir, { fsync: "on" });
    expect(await query(server.connectionString, "show fsync")).toEqual(["on"]);
    expect(await query(server.connectionString, "show listen_addresses")).toEqual(["127.0.0.1"]);
    expect(await query(server.connectionString, "show unix_socket_directories")).toEqual([""]);
    const stranger = new URL(server.connectionString);
    stranger.password = "guess";
    await expect(query(stranger.href, "select 1")).rejects.toThrow(/password authentication failed/);
    expect((await stat(join(dataDir, "password"))).mode & 0o777).toBe(0o600);
    await server.stop();
  });

  test("makes databases in UTF8 that sort by code point", async () => {
    const server = await startScratchServer(dataDir);
    const encodings = "select pg_encoding_to_char(encoding) || ' ' || datcollate from pg_database";
    expect(new Set(await query(server.connectionString, encodings))).toEqual(new Set(["UTF8 C"]));
    await server.stop();
  });

  test("attaches to a running server, and stopping it then leaves the server running", async () => {
    const owner = await startScratchServer(dataDir);
    const guest = await startScratchServer(dataDir);
    expect(guest).toMatchObject({ attached: true, connectionString: owner.connectionString });
    await guest.stop();
    expect(await query(owner.connectionString, "select 1")).toEqual([1]);
    await owner.stop();
    await expect(query(owner.connectionString, "select 1")).rejects.toThrow(/ECONNREFUSED/);
  });

  test("shares one server with others that start on the same new directory at the same time", async () => {
    const fresh = join(directory.path, "contended");
    const servers = await Promise.all([1, 2, 3].map(() => startScratchServer(fresh)));
    expect(servers.map((server) => server.attached).sort()).toEqual([false, true, true]);
    expect(new Set(servers.map((server) => server.connectionString)).size).toBe(1);
    expect((await readdir(fresh)).filter((name) => name.includes("partial"))).toEqual([]);
    await Promise.all(servers.map((server) => server.stop()));
  });

  test("ignores what an interrupted initdb left behind, and clears it away when it is old", async () => {
    const interrupted = join(directory.path, "interrupted");
    const leftover = join(interrupted, "cluster.0a1b2c.partial");
    await mkdir(leftover, { recursive: true });
    await writeFile(join(leftover, "PG_VERSION"), "18\n");
    await utimes(leftover, new Date(0), new Date(0));

    const server = await startScratchServer(interrupted);
    expect(await query(server.connectionString, "select 1")).toEqual([1]);
    expect(await readdir(interrupted)).not.toContain("cluster.0a1b2c.partial");
    await server.stop();
  });
});

describe("after the server was killed", () => {
  test("the next start recovers it", async () => {
    const killed = await startScratchServer(dataDir);
    await query(killed.connectionString, "insert into kept values ('before the kill')");
    process.kill(await postmasterPid(dataDir), "SIGKILL");

    const server = await startScratchServer(dataDir);
    expect(server.attached).toBe(false);
    expect(await query(server.connectionString, "select text from kept")).toContain("before the kill");
    await server.stop();
    await killed.stop();
  });

  test("the next start is not misled by a program that got its process id", async () => {
    const killed = await startScratchServer(dataDir);
    const pidFile = join(dataDir, "cluster", "postmaster.pid");
    process.kill(await postmasterPid(dataDir), "SIGKILL");
    await killed.stop();
    const [, ...rest] = (await readFile(pidFile, "utf8")).split("\n");
    const { uid, gid } = await stat(pidFile); // PostgreSQL is misled only by processes of its own user
    const program = spawn("sleep", ["60"], process.getuid?.() === 0 ? { uid, gid } : {});
    await once(program, "spawn");
    await writeFile(pidFile, [program.pid, ...rest].join("\n"));

    const server = await startScratchServer(dataDir);
    expect(server.attached).toBe(false);
    await server.stop();
    program.kill();
  });
});

describe("the server ends with its owner, and the next start works,", () => {
  test.for([
    ["when the owner is killed", "wait", "SIGKILL"],
    ["when the owner is interrupted", "wait", "SIGINT"],
    ["when the owner is terminated", "wait", "SIGTERM"],
    ["when the owner has nothing left to do", "return", undefined],
    ["when the owner dies of an error", "throw", undefined],
  ] as const)("%s", async ([, ending, signal]) => {
    const { owner, connectionString } = await startOwner(ending);
    if (signal !== undefined) owner.kill(signal);
    if (owner.exitCode === null && owner.signalCode === null) await once(owner, "exit");
    await untilRefusing(connectionString);

    const server = await startScratchServer(dataDir);
    expect(server).toMatchObject({ attached: false, connectionString });
    await server.stop();
  });

  test("when the owner is killed while the server is only starting", async () => {
    await (await startScratchServer(dataDir)).stop(); // so that the next start is nothing but a start
    const isRunning = async () =>
      (await promisify(execFile)("ps", ["-eo", "args"])).stdout
        .split("\n")
        .some((command) => command.includes("postgres -D") && command.includes(dataDir));
    for (let round = 0; round < 16; round++) {
      const owner = spawn(process.execPath, [join(import.meta.dirname, "owner.ts"), dataDir, "wait"]);
      while (!(await isRunning())) if (owner.exitCode !== null) expect.unreachable("the owner ended");
      // A little later in each round, since the server is deaf for some part of its start.
      for (let look = 0; look < round % 8; look++) await isRunning();
      owner.kill("SIGKILL");
      await once(owner, "exit");
      while (await isRunning()); // a server that stays makes this test time out
    }
  });

  async function startOwner(ending: string): Promise<{ owner: ChildProcess; connectionString: string }> {
    const program = join(import.meta.dirname, "owner.ts");
    const owner = spawn(process.execPath, [program, dataDir, ending], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const [line] = (await once(owner.stdout, "data")) as [Buffer];
    return { owner, connectionString: line.toString().trim() };
  }
});
