import { PiSessionError } from "../contract/errors.ts";
import { atPlace, LineFault } from "./errors.ts";

/** A line that a lenient import could not use, or not wholly. Its bytes are kept for `original` export. */
export interface UnusableLine {
  /** Counted from 1. */
  line: number;
  /** Stable across versions: an `ArchiveErrorCode` or the code of a PiSessionError. */
  code: string;
  /** What is wrong with it, without message content. */
  reason: string;
}

/** The lines that a lenient import could not use: the first of them, and how many there are. */
export interface UnusableLines {
  count: number;
  lines: UnusableLine[];
}

/** How many unusable lines are told. */
export const MAX_UNUSABLE_LINES = 100;

/** Decides what a fault of a line means: a strict reading ends with it, a lenient one notes it and goes on. */
export class LineFaults {
  readonly isLenient: boolean;
  readonly #path: string;
  readonly #lines: UnusableLine[] = [];
  #count = 0;

  constructor(path: string, options: { lenient: boolean }) {
    this.#path = path;
    this.isLenient = options.lenient;
  }

  get found(): UnusableLines {
    return { count: this.#count, lines: [...this.#lines] };
  }

  /** @throws ArchiveError unless lenient; any error that is no fault of the line */
  add(line: number, error: unknown): void {
    if (!this.isLenient || !(error instanceof LineFault || error instanceof PiSessionError)) {
      throw atPlace({ path: this.#path, line }, error);
    }
    this.#count++;
    if (this.#lines.length < MAX_UNUSABLE_LINES) {
      this.#lines.push({ line, code: error.code, reason: error.message });
    }
  }

  /** What `work` returns; `undefined` where it found a fault and that was noted. */
  try<T>(line: number, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.add(line, error);
      return undefined;
    }
  }
}
