import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { BACKGROUND_CONTEXT as context, openDatabase } from "../../src/index.ts";
import { type Audit, audit } from "./audit.ts";
import { type CuttingProxy, openCuttingProxy } from "./cutting-proxy.ts";
import { readJournal } from "./journal.ts";
import { Random } from "./random.ts";
import { type ChaosServer, startChaosServer } from "./server.ts";
import type { WriterOptions } from "./writer.ts";

export interface ChaosOptions {
  /** Of all random choices; what the machine makes of them differs from run to run. */
  readonly seed: number;
  /** How long it is made hard for the writers. */
  readonly milliseconds: number;
  /** How often the whole server dies in that time. */
  readonly serverCrashes: number;
  /** How often a writer is killed and started again. */
  readonly writerKills: number;
  readonly writers?: number;
  /** That they share. */
  readonly sessions?: number;
  /** A folder with the programs of another PostgreSQL than the embedded one. */
  readonly binaries?: string;
  /** Is told what happens, now and then. */
  readonly onProgress?: (line: string) => void;
}

export interface ChaosReport extends Audit {
  readonly counts: Audit["counts"] & {
    connectionsCut: number;
    backendsKilled: number;
    serverCrashes: number;
    writersKilled: number;
    /** Attempts of all writers. */
    tried: number;
  };
}

const SCHEMA = "chaos";
const APPLICATION = { role: "chaos_app", password: randomBytes(12).toString("hex") };
const KILL_A_BACKEND_EVERY_MS = 1_000;
/** After the last blow. A commit that may have happened is looked for, for up to half a minute. */
const WRITERS_END_WITHIN_MS = 90_000;

/**
 * Lets writers in processes of their own write to a few sessions while their connections are cut, their backends
 * killed and the server crashed; then compares what they were told with what is stored.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const directory = await mkdtemp(join(tmpdir(), "pi-chaos-"));
  let server: ChaosServer | undefined;
  try {
    server = await startChaosServer(join(directory, "data"), options.binaries);
    return await rage(directory, server, options);
  } finally {
    await server?.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

async function rage(directory: string, server: ChaosServer, options: ChaosOptions): Promise<ChaosReport> {
  const { seed, writers: writerCount = 8, sessions: sessionCount = 3, onProgress = () => {} } = options;
  const sessions = Array.from({ length: sessionCount }, (_, index) => `shared-${index}`);
  await prepare(server.connectionString, sessions);
  await using proxy = await openCuttingProxy((connection) => new Random(seed, "connection", connection));
  proxy.leadTo(server.port);
  const url = new URL(server.connectionString);
  Object.assign(url, {
    username: APPLICATION.role,
    password: APPLICATION.password,
    port: String(proxy.port),
  });
  const writers = Array.from(
    { length: writerCount },
    (_, index) =>
      new WriterProcess(`w${index}`, {
        connectionString: url.href,
        schema: SCHEMA,
        seed,
        sessions,
        journal: join(directory, `writer-${index}.jsonl`),
      }),
  );
  try {
    await Promise.all(writers.map((writer) => writer.begun()));
    onProgress("all writers write");
    const blows = await strike(server, proxy, writers, options, onProgress);
    proxy.stopCutting();
    onProgress("no more blows; the writers finish what they have begun");
    const failures = (await Promise.all(writers.map((writer) => writer.finish()))).flat();
    const journals = writers.map(({ journal }) => readJournal(journal));
    const audited = await audit(server.connectionString, SCHEMA, sessions, journals);
    return {
      counts: {
        ...blows,
        connectionsCut: proxy.cuts,
        tried: journals.reduce((sum, journal) => sum + journal.length, 0),
        ...audited.counts,
      },
      violations: [...failures, ...audited.violations],
    };
  } finally {
    for (const writer of writers) writer.kill();
  }
}

async function prepare(connectionString: string, sessions: readonly string[]): Promise<void> {
  const database = await openDatabase({ connectionString, schema: SCHEMA });
  await database.migrate({ applicationRoles: [APPLICATION.role] });
  await query(connectionString, `alter role ${APPLICATION.role} login password '${APPLICATION.password}'`);
  const repo = await database.repo("default");
  for (const id of sessions) {
    const session = await repo.create({ id }, context);
    await session.createBranch("main", null, context);
  }
  await database.close();
}

/** Runs its course by the clock, whatever the writers do meanwhile. */
async function strike(
  server: ChaosServer,
  proxy: CuttingProxy,
  writers: readonly WriterProcess[],
  { seed, milliseconds, serverCrashes, writerKills }: ChaosOptions,
  onProgress: (line: string) => void,
): Promise<{ backendsKilled: number; serverCrashes: number; writersKilled: number }> {
  const random = new Random(seed, "blows");
  const counts = { backendsKilled: 0, serverCrashes: 0, writersKilled: 0 };
  const blows = [
    ...momentsOf(random, serverCrashes, milliseconds).map((at) => ({ at, blow: "crash" as const })),
    ...momentsOf(random, writerKills, milliseconds).map((at) => ({ at, blow: "writer" as const })),
    ...Array.from({ length: Math.trunc(milliseconds / KILL_A_BACKEND_EVERY_MS) }, (_, second) => ({
      at: second * KILL_A_BACKEND_EVERY_MS,
      blow: "backend" as const,
    })),
  ].sort((one, other) => one.at - other.at);
  const start = performance.now();
  const until = (at: number) => sleep(Math.max(0, start + at - performance.now()));
  for (const { at, blow } of blows) {
    await until(at);
    switch (blow) {
      case "backend":
        if (await killBackend(server.connectionString, random)) counts.backendsKilled++;
        break;
      case "writer": {
        const writer = random.pick(writers);
        onProgress(`${seconds(at)} the writer ${writer.name} is killed and started again`);
        await writer.replace();
        counts.writersKilled++;
        break;
      }
      case "crash": {
        const since = performance.now();
        await server.crashAndRecover();
        proxy.leadTo(server.port);
        counts.serverCrashes++;
        onProgress(`${seconds(at)} the server has crashed, back after ${seconds(performance.now() - since)}`);
      }
    }
  }
  await until(milliseconds);
  return counts;
}

/** Not so late that nothing follows. */
function momentsOf(random: Random, count: number, milliseconds: number): number[] {
  return Array.from({ length: count }, () => milliseconds * 0.9 * random.next());
}

/** Ends one of the writers' connections in the server, at whatever it is doing. */
async function killBackend(connectionString: string, random: Random): Promise<boolean> {
  const rows = await query(
    connectionString,
    `select pg_terminate_backend(pid) as killed from (
       select pid from pg_stat_activity where application_name like 'chaos %' order by pid
       offset (select count(*) * ${random.next()} from pg_stat_activity where application_name like 'chaos %') limit 1
     ) as one`,
  );
  return rows[0]?.["killed"] === true;
}

async function query(connectionString: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

const PROGRAM = fileURLToPath(new URL("./writer.ts", import.meta.url));

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** One of the writers; a killed one goes on in a new process, with the same journal. */
class WriterProcess {
  readonly journal: string;
  readonly #name: string;
  readonly #options: Omit<WriterOptions, "name">;
  #lives = 0;
  #child: Child;
  #ended: Promise<unknown>;
  #errors = "";
  #isKilled = false;

  constructor(name: string, options: Omit<WriterOptions, "name">) {
    this.#name = name;
    this.#options = options;
    this.journal = options.journal;
    [this.#child, this.#ended] = this.#start();
  }

  get name(): string {
    return `${this.#name}.${this.#lives}`;
  }

  /** Resolves when it writes, or has ended. */
  async begun(): Promise<void> {
    await Promise.race([once(this.#child.stdout, "data"), this.#ended]);
    this.#child.stdout.resume();
  }

  async replace(): Promise<void> {
    if (this.#hasEnded()) return; // by itself, which is told at the end
    this.#isKilled = true;
    this.#child.kill("SIGKILL");
    await this.#ended;
    this.#isKilled = false;
    this.#lives++;
    [this.#child, this.#ended] = this.#start();
  }

  /** Tells it to stop, and resolves to what went wrong in it. */
  async finish(): Promise<string[]> {
    this.#child.stdin.end();
    const impatience = setTimeout(() => {
      this.#errors += "did not end in time";
      this.kill();
    }, WRITERS_END_WITHIN_MS);
    await this.#ended;
    clearTimeout(impatience);
    const { exitCode, signalCode } = this.#child;
    return exitCode === 0
      ? []
      : [`writer ${this.name} ended with ${exitCode ?? signalCode}: ${this.#errors}`];
  }

  kill(): void {
    if (!this.#hasEnded()) this.#child.kill("SIGKILL");
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  #start(): [Child, Promise<unknown>] {
    const options: WriterOptions = { ...this.#options, name: this.name };
    const child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], {
      stdio: ["pipe", "pipe", "pipe"],
    });
    child.stdin.on("error", () => {}); // it has ended
    child.stderr.on("data", (text: Buffer) => {
      if (!this.#isKilled) this.#errors += text.toString();
    });
    return [child, once(child, "close")];
  }
}
