import type { Candidate } from "./find-archives.ts";
import type { FileOutcome, ImportProgress } from "./report.ts";

/** Adds up what is done, over all files that are read at the same time. */
export class ProgressSum {
  readonly #report: (progress: ImportProgress) => void;
  readonly #totals: Pick<ImportProgress, "filesTotal" | "bytesTotal" | "leftOut">;
  #filesDone = 0;
  #bytesDone = 0;

  constructor(
    { candidates, leftOut }: { candidates: readonly Candidate[]; leftOut: number },
    report: (progress: ImportProgress) => void,
  ) {
    this.#report = report;
    const bytesTotal = candidates.reduce((total, candidate) => total + sizeOf(candidate), 0);
    this.#totals = { filesTotal: candidates.length, bytesTotal, leftOut };
    report(this.#now());
  }

  start(candidate: Candidate): FileProgress {
    const size = sizeOf(candidate);
    let counted = 0;
    const count = (bytes: number) => {
      // A file may have grown since it was found.
      const capped = Math.max(counted, Math.min(bytes, size));
      this.#bytesDone += capped - counted;
      counted = capped;
    };
    return {
      read: (bytes) => {
        count(bytes);
        this.#report(this.#now(candidate.path));
      },
      finish: (outcomes) => {
        count(size);
        this.#filesDone++;
        for (const outcome of outcomes) this.#report({ ...this.#now(candidate.path), outcome });
      },
    };
  }

  #now(path?: string): ImportProgress {
    return {
      filesDone: this.#filesDone,
      bytesDone: Math.round(this.#bytesDone),
      ...this.#totals,
      ...(path === undefined ? {} : { path }),
    };
  }
}

/** Of one file. */
export interface FileProgress {
  /** How many bytes of it are done. */
  read(bytes: number): void;
  finish(outcomes: readonly FileOutcome[]): void;
}

function sizeOf(candidate: Candidate): number {
  return "size" in candidate ? candidate.size : 0;
}
