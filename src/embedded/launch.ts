import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type FileHandle, open, rename } from "node:fs/promises";
import type { Socket } from "node:net";
import type { Binaries } from "./binaries.ts";
import type { DataDir } from "./data-dir.ts";
import { HOST } from "./port.ts";
import { nonEmptyLines, serverEnvironment } from "./run.ts";
import type { ServerUser } from "./server-user.ts";

/** A server process that this process owns. It may still be starting. */
export interface LaunchedServer {
  /** Resolves when the server has ended, for whatever reason. */
  readonly ended: Promise<void>;
  hasEnded(): boolean;
  /** The process id, once known. */
  pid(): number | undefined;
  /** The last lines that this server (no earlier one) has logged. */
  log(): Promise<string[]>;
  /** Disconnects clients, writes a checkpoint, ends the server. */
  stop(): Promise<void>;
}

/**
 * The server must not survive its owner, however the owner ends. So a shell stands between the two and holds
 * a pipe: when the owner closes it, or dies, `read` returns and the server is told to shut down.
 */
const SUPERVISOR = `
exec 3<&0
"$@" </dev/null >&2 3<&- &
server=$!
echo "$server"
exec >&2
# Again and again: a server that is just starting does not heed it yet.
( read -r _ <&3; while kill -INT "$server"; do sleep 0.2; done ) 2>/dev/null &
watcher=$!
exec 3<&-
wait "$server"
kill "$watcher" 2>/dev/null
`;

const LOG_LINES = 20;
const LOG_TAIL_BYTES = 16 * 1024;
const MAX_LOG_BYTES = 1024 * 1024;
/** After that a clean shutdown is given up; the next start then recovers from the write-ahead log. */
const STOP_TIMEOUT_MS = 60_000;

export async function launch(
  dataDir: DataDir,
  binaries: Binaries,
  user: ServerUser,
  settings: Readonly<Record<string, string>>,
): Promise<LaunchedServer> {
  const logFile = await openLog(dataDir.logFile);
  const logStart = (await logFile.stat()).size;
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const command = [...user.prefix, binaries.postgres, "-D", dataDir.clusterDir, ...args];
  const child = spawn("/bin/sh", ["-c", SUPERVISOR, "sh", ...command], {
    ...user.ids,
    cwd: "/",
    // Its own session: Ctrl-C in the terminal must reach the owner, which may still need the server.
    detached: true,
    env: serverEnvironment(),
    stdio: ["pipe", "pipe", logFile.fd],
  });
  // The shell has its own copy of the descriptor once it is spawned.
  await once(child, "spawn").finally(() => logFile.close());
  return new SupervisedServer(child, () => readTail(dataDir.logFile, logStart));
}

/** Settings that make the server reachable from this machine alone, by password alone. */
export function listenOn(port: number): Record<string, string> {
  return { listen_addresses: HOST, port: String(port), unix_socket_directories: "" };
}

class SupervisedServer implements LaunchedServer {
  readonly ended: Promise<void>;
  readonly log: () => Promise<string[]>;
  readonly #child: ChildProcess;
  readonly #lifeline: Socket;
  #pid: number | undefined;

  constructor(child: ChildProcess, log: () => Promise<string[]>) {
    this.#child = child;
    this.log = log;
    this.#lifeline = child.stdin as Socket;
    this.#lifeline.on("error", () => {}); // a broken pipe: the shell has ended
    this.ended = once(child, "exit").then(() => {
      this.#lifeline.destroy();
    });
    const output = child.stdout as Socket;
    output.once("data", (line: Buffer) => {
      this.#pid = Number(line.toString());
      output.destroy();
    });
    // A program that has nothing left to do ends, and the server with it.
    for (const handle of [child, this.#lifeline, output]) handle.unref();
  }

  hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  pid(): number | undefined {
    return this.#pid;
  }

  async stop(): Promise<void> {
    if (this.hasEnded()) return;
    this.#child.ref();
    this.#lifeline.end();
    const impatience = setTimeout(() => this.#quit(), STOP_TIMEOUT_MS);
    try {
      await this.ended;
    } finally {
      clearTimeout(impatience);
    }
  }

  #quit(): void {
    if (this.#pid === undefined) return;
    try {
      process.kill(this.#pid, "SIGQUIT");
    } catch {
      // It has ended just now.
    }
  }
}

/** The log grows over many starts, so it is put aside when large: at most two files of bounded size. */
async function openLog(path: string): Promise<FileHandle> {
  const file = await open(path, "a", 0o600);
  if ((await file.stat()).size < MAX_LOG_BYTES) return file;
  await file.close();
  await rename(path, `${path}.old`);
  return open(path, "a", 0o600);
}

async function readTail(path: string, from: number): Promise<string[]> {
  const file = await open(path, "r");
  try {
    const start = Math.max(from, (await file.stat()).size - LOG_TAIL_BYTES);
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(LOG_TAIL_BYTES), position: start });
    return nonEmptyLines(buffer.toString("utf8", 0, bytesRead)).slice(-LOG_LINES);
  } finally {
    await file.close();
  }
}
