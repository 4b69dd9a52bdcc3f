import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export interface Finished {
  code: number | null;
  /** What ended it, where that was no exit. */
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** A command that goes on: its process, its first line of output, and how it ends. */
export interface Started {
  process: ChildProcessWithoutNullStreams;
  firstLine: Promise<string>;
  finished: Promise<Finished>;
}

/** Runs the command as a process of its own, on pipes, and waits for its end. */
export function runCommand(args: readonly string[], env: Record<string, string> = {}): Promise<Finished> {
  return startCommand(args, env).finished;
}

/** Starts the command as a process of its own, on pipes. */
export function startCommand(args: readonly string[], env: Record<string, string> = {}): Started {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...process.env, DATABASE_URL: "", ...env },
  });
  const { promise: firstLine, resolve: haveFirstLine } = Promise.withResolvers<string>();
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    const end = stdout.indexOf("\n");
    if (end !== -1) haveFirstLine(stdout.slice(0, end));
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.end();
  const finished = new Promise<Finished>((finish, fail) => {
    child.on("error", fail).on("close", (code, signal) => {
      haveFirstLine(stdout);
      finish({ code, signal, stdout, stderr });
    });
  });
  return { process: child, firstLine, finished };
}
