import { SingleBar } from "cli-progress";
import type { FileOutcome, ImportProgress } from "../archive/report.ts";
import { type Pace, PaceMeter } from "./import-pace.ts";
import { formatBytes, formatCount, formatDuration, printJsonLine, tell, visible } from "./output.ts";

/** Shows how far an import has come. */
export interface ImportDisplay {
  progress(now: ImportProgress): void;
  /** In the order of the report. */
  file(outcome: FileOutcome): void;
  /** However the import ends. */
  stop(): void;
}

/** A bar on a terminal's standard error; elsewhere a line every few seconds. */
export function displayForPeople(): ImportDisplay {
  return process.stderr.isTTY === true ? new Bar() : new Lines();
}

class Bar implements ImportDisplay {
  readonly #meter = new PaceMeter();
  readonly #bar = new SingleBar({
    format: "Importing {bar} {percentage}% | {files} files | {bytes} | {pace} | {path}",
    stream: process.stderr,
    // Changes no setting of the terminal, so that none is left behind however this process ends.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
  });
  #isStarted = false;

  progress(now: ImportProgress): void {
    const { files, bytes, pace } = wordsOf(now, this.#meter.pace(now));
    const state = { files, bytes, pace, path: visible(now.path ?? "").slice(-40) };
    if (this.#isStarted) this.#bar.update(now.bytesDone, state);
    else this.#bar.start(now.bytesTotal, now.bytesDone, state);
    this.#isStarted = true;
  }

  file(): void {}

  stop(): void {
    if (this.#isStarted) this.#bar.stop();
  }
}

const LINE_MS = 5_000;

class Lines implements ImportDisplay {
  readonly #meter = new PaceMeter();
  readonly #interval = new Interval(LINE_MS);

  progress(now: ImportProgress): void {
    const pace = this.#meter.pace(now);
    if (!this.#interval.isOver()) return;
    const words = wordsOf(now, pace);
    tell(`Importing: ${words.files} files, ${words.bytes}, ${words.pace}`);
  }

  file(): void {}
  stop(): void {}
}

function wordsOf({ filesDone, filesTotal, bytesDone, bytesTotal }: ImportProgress, pace: Pace) {
  const { bytesPerSecond, secondsLeft } = pace;
  const left = secondsLeft === undefined ? "" : `, ${formatDuration(secondsLeft)} left`;
  return {
    files: `${formatCount(filesDone)} of ${formatCount(filesTotal)}`,
    bytes: `${formatBytes(bytesDone)} of ${formatBytes(bytesTotal)}`,
    pace: `${formatBytes(bytesPerSecond)}/s${left}`,
  };
}

const EVENT_MS = 1_000;

/** One JSON object per line on standard output: `progress` about once a second, `file` for each path. */
export class JsonEvents implements ImportDisplay {
  readonly #meter = new PaceMeter();
  readonly #interval = new Interval(EVENT_MS);

  progress({ outcome: _, ...now }: ImportProgress): void {
    const { bytesPerSecond, secondsLeft = null } = this.#meter.pace(now);
    if (this.#interval.isOver()) printJsonLine({ event: "progress", ...now, bytesPerSecond, secondsLeft });
  }

  file(outcome: FileOutcome): void {
    printJsonLine({ event: "file", ...outcome });
  }

  stop(): void {}
}

/** Says once in a while that it is time. */
class Interval {
  readonly #length: number;
  #next: number;

  constructor(lengthMs: number) {
    this.#length = lengthMs;
    this.#next = performance.now() + lengthMs;
  }

  isOver(): boolean {
    const now = performance.now();
    if (now < this.#next) return false;
    this.#next = now + this.#length;
    return true;
  }
}
