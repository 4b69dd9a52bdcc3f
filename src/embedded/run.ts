import { spawn } from "node:child_process";

/** What a program that ran to its end left: `exitCode` is null when a signal ended it. */
export interface RunResult {
  readonly exitCode: number | null;
  /** Standard output and standard error, interleaved, without empty lines. */
  readonly lines: readonly string[];
}

/** Runs a short-lived program. A program that cannot be started counts as failed; this never rejects. */
export function run(
  command: string,
  args: readonly string[],
  options: { uid?: number; gid?: number } = {},
): Promise<RunResult> {
  return new Promise((resolve) => {
    // The caller's working directory may be one that the other user cannot enter.
    const child = spawn(command, args, {
      ...options,
      cwd: "/",
      env: serverEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    const collect = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", (error) => resolve({ exitCode: null, lines: [error.message] }));
    child.on("close", (exitCode) => resolve({ exitCode, lines: nonEmptyLines(output) }));
  });
}

/** The environment of this process with English messages, and without the variables that libpq and postgres obey. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(PG|LC_|LANG)/.test(name));
  return { ...Object.fromEntries(inherited), LC_ALL: "C" };
}

export function nonEmptyLines(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => line.trim() !== "");
}
