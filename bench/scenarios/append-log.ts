import { median } from "../measuring/statistics.ts";
import type { PgbenchResult } from "../pgbench/pgbench.ts";
import type { AppendCost } from "../report/line.ts";
import type { AppendSample } from "../worker/operations.ts";

/** What appends cost, beside time. */
export class AppendLog {
  /** How often the caller was told to try again. */
  refusals = 0;
  readonly #client: number[] = [];
  readonly #server: number[] = [];
  readonly #pgbenchServer: number[] = [];
  readonly #repeats: number[] = [];
  readonly #pgbenchRepeats: number[] = [];
  readonly #perSecondInNew: number[] = [];
  readonly #repeatsInNew: number[] = [];

  /** @returns appends a second */
  ours({ appends, ms, repeats, refusals, clientCpuMs, serverCpuMs }: AppendSample): number {
    this.#client.push(clientCpuMs / appends);
    if (serverCpuMs !== undefined) this.#server.push(serverCpuMs / appends);
    this.#repeats.push(repeats / appends);
    this.refusals += refusals;
    return (appends / ms) * 1_000;
  }

  oursInNewSessions({ appends, ms, repeats, refusals }: AppendSample): void {
    this.refusals += refusals;
    this.#perSecondInNew.push((appends / ms) * 1_000);
    this.#repeatsInNew.push(repeats / appends);
  }

  /** @returns appends a second */
  pgbench({ perSecond, serverCpuMs, repeats, transactions }: PgbenchResult): number {
    if (serverCpuMs !== undefined) this.#pgbenchServer.push(serverCpuMs);
    this.#pgbenchRepeats.push(repeats / transactions);
    return perSecond;
  }

  costOf(connections: number): AppendCost {
    const known = (samples: number[]) => (samples.length === 0 ? undefined : median(samples));
    return {
      connections,
      clientCpuMs: known(this.#client),
      serverCpuMs: known(this.#server),
      pgbenchServerCpuMs: known(this.#pgbenchServer),
      repeats: known(this.#repeats),
      pgbenchRepeats: known(this.#pgbenchRepeats),
      perSecondInNew: known(this.#perSecondInNew),
      repeatsInNew: known(this.#repeatsInNew),
    };
  }
}
