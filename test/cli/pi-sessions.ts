import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command as a process of its own, on pipes, and waits for its end. */
export function runCommand(args: readonly string[], env: Record<string, string> = {}): Promise<Finished> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...process.env, DATABASE_URL: "", ...env },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.end();
  return new Promise((finish, fail) => {
    child.on("error", fail).on("close", (code) => finish({ code, stdout, stderr }));
  });
}
