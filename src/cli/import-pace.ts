import type { ImportProgress } from "../archive/report.ts";

/** How fast an import is, and how long it will take. */
export interface Pace {
  /** Over the last seconds. */
  readonly bytesPerSecond: number;
  /** `undefined` while nothing is known. */
  readonly secondsLeft: number | undefined;
}

/** Long enough to be steady, short enough to forget a stretch of files that were stored already. */
const WINDOW_MS = 20_000;
const SAMPLE_MS = 500;

/** Measures the pace of an import by what it did in the last seconds. */
export class PaceMeter {
  readonly #samples: { at: number; bytes: number }[] = [{ at: performance.now(), bytes: 0 }];

  pace({ bytesDone, bytesTotal }: Pick<ImportProgress, "bytesDone" | "bytesTotal">): Pace {
    const now = performance.now();
    this.#sample(now, bytesDone);
    const [first = { at: now, bytes: 0 }] = this.#samples;
    const seconds = (now - first.at) / 1000;
    const bytesPerSecond = seconds === 0 ? 0 : Math.round((bytesDone - first.bytes) / seconds);
    const secondsLeft =
      bytesPerSecond === 0 ? undefined : Math.ceil((bytesTotal - bytesDone) / bytesPerSecond);
    return { bytesPerSecond, secondsLeft };
  }

  #sample(now: number, bytes: number): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && now - last.at < SAMPLE_MS) return;
    this.#samples.push({ at: now, bytes });
    while ((this.#samples[1]?.at ?? now) < now - WINDOW_MS) this.#samples.shift();
  }
}
