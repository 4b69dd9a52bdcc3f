import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Answer, Operations, Request, WorkerConfig } from "./operations.ts";

const WORKER = fileURLToPath(new URL("worker.ts", import.meta.url));

export interface Worker extends AsyncDisposable {
  call<O extends keyof Operations>(
    operation: O,
    ...input: Parameters<Operations[O]>
  ): Promise<Awaited<ReturnType<Operations[O]>>>;
}

export interface WorkerOptions {
  /** Writes a CPU profile of the process there. */
  readonly profileDirectory?: string | undefined;
}

export function startWorker(config: WorkerConfig, { profileDirectory }: WorkerOptions = {}): Worker {
  const profile =
    profileDirectory === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${profileDirectory}`, `--cpu-prof-name=${config.store}.cpuprofile`];
  const child = fork(WORKER, [JSON.stringify(config)], {
    execArgv: ["--expose-gc", "--disable-warning=ExperimentalWarning", ...profile],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  return new ForkedWorker(child, config);
}

interface Waiting {
  resolve(output: unknown): void;
  reject(error: Error): void;
}

class ForkedWorker implements Worker {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<unknown>;
  #requests = 0;

  constructor(child: ChildProcess, { store }: WorkerConfig) {
    this.#child = child;
    this.#ended = once(child, "exit");
    child.on("message", (answer: Answer) => this.#settle(answer, store));
    child.on("exit", (code, signal) => {
      for (const { reject } of this.#waiting.values())
        reject(new Error(`${store} ended with ${signal ?? code}`));
    });
  }

  call<O extends keyof Operations>(
    operation: O,
    ...[input]: Parameters<Operations[O]>
  ): Promise<Awaited<ReturnType<Operations[O]>>> {
    const request: Request = { id: ++this.#requests, operation, input };
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { resolve: resolve as (output: unknown) => void, reject });
      this.#child.send(request);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended;
  }

  #settle(answer: Answer, store: string): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if ("error" in answer) waiting?.reject(new Error(`${store}: ${answer.error}`));
    else waiting?.resolve(answer.output);
  }
}
