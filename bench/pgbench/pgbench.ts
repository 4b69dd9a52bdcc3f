import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { serverCpuMs } from "../measuring/cpu.ts";
import type { PgbenchScript } from "./script.ts";

/** Where Debian puts it, newest first. */
const DEBIAN = [18, 17, 16, 15].map((version) => `/usr/lib/postgresql/${version}/bin`);

/** The program that `PGBENCH` names, else one in the PATH. Undefined if there is none. */
export async function findPgbench(): Promise<string | undefined> {
  const given = process.env["PGBENCH"];
  const directories = [...(process.env["PATH"] ?? "").split(delimiter), ...DEBIAN];
  const candidates = given ? [given] : directories.map((directory) => join(directory, "pgbench"));
  for (const candidate of candidates) {
    const exists = await access(candidate).then(
      () => true,
      () => false,
    );
    if (exists) return candidate;
  }
  return undefined;
}

export async function pgbenchVersion(program: string): Promise<string> {
  return (await promisify(execFile)(program, ["--version"])).stdout.trim();
}

export interface PgbenchRun {
  readonly program: string;
  readonly url: string;
  readonly postmasterPid: number;
  readonly script: PgbenchScript;
  /** Where the script is written. */
  readonly file: string;
  readonly width: number;
  /** In which connections are opened and statements planned; not counted. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** The sessions' ids are this number and those that follow. */
  readonly firstSession: number;
}

export interface PgbenchResult {
  readonly perSecond: number;
  /** Of the server, for one transaction. */
  readonly serverCpuMs: number | undefined;
  /** These and the repeats with the warm-up. */
  readonly transactions: number;
  readonly repeats: number;
}

/** Runs a script on so many connections, each with a session of its own. */
export async function runPgbench(run: PgbenchRun): Promise<PgbenchResult> {
  await writeFile(run.file, run.script.text);
  const { password } = new URL(run.url);
  const child = spawn(run.program, argumentsOf(run), { env: { ...process.env, PGPASSWORD: password } });
  const ended = once(child, "close");
  const output = text(child.stdout);
  const [{ progress, log }] = await Promise.all([followProgress(child.stderr, run.postmasterPid), ended]);
  const transactions = Number(/transactions actually processed: (\d+)/.exec(await output)?.[1]);
  // Under load, pgbench tells its progress late.
  const counted = progress.filter(({ from }) => from > run.warmUpSeconds - 0.5);
  const done = counted.reduce((sum, { from, to, rate }) => sum + rate * (to - from), 0);
  if (!(done > 0) || !(transactions > 0)) throw new Error(`pgbench did nothing:\n${log}\n${await output}`);
  const [first, last] = [counted[0], counted.at(-1)];
  const [before, after] = [first?.serverCpuMsBefore, last?.serverCpuMs];
  return {
    perSecond: done / ((last?.to ?? Number.NaN) - (first?.from ?? Number.NaN)),
    serverCpuMs: before === undefined || after === undefined ? undefined : (after - before) / done,
    transactions,
    repeats: Number(/total number of retries: (\d+)/.exec(await output)?.[1]),
  };
}

function argumentsOf(run: PgbenchRun): string[] {
  const { hostname, port, username, pathname } = new URL(run.url);
  const variables = { ...run.script.variables, first_session: String(run.firstSession) };
  return [
    "--no-vacuum",
    "--protocol=prepared",
    `--client=${run.width}`,
    `--jobs=${Math.min(run.width, 2)}`,
    `--time=${run.warmUpSeconds + run.seconds}`,
    "--progress=1",
    "--max-tries=20",
    `--file=${run.file}`,
    ...Object.entries(variables).map(([name, value]) => `--define=${name}=${value}`),
    `--host=${hostname}`,
    `--port=${port}`,
    `--username=${username}`,
    pathname.slice(1),
  ];
}

/** What happened since the last time that pgbench told. */
interface Progress {
  /** Seconds since the start. */
  readonly from: number;
  readonly to: number;
  /** Transactions a second. */
  readonly rate: number;
  /** Of the server, until then. */
  readonly serverCpuMsBefore: number | undefined;
  readonly serverCpuMs: number | undefined;
}

async function followProgress(stderr: NodeJS.ReadableStream, postmasterPid: number) {
  const progress: Progress[] = [];
  const log: string[] = [];
  for await (const line of createInterface({ input: stderr })) {
    log.push(line);
    const [, to, rate] = /^progress: ([\d.]+) s, ([\d.]+) tps/.exec(line) ?? [];
    if (to === undefined) continue;
    const last = progress.at(-1);
    progress.push({
      from: last?.to ?? 0,
      to: Number(to),
      rate: Number(rate),
      serverCpuMsBefore: last?.serverCpuMs,
      serverCpuMs: await serverCpuMs(postmasterPid),
    });
  }
  return { progress, log: log.join("\n") };
}
