import { basename, sep } from "node:path";
import picomatch from "picomatch";
import { InvalidOptionError } from "../contract/errors.ts";

/** Which of the files that were found are wanted. */
export interface ArchiveFilterOptions {
  /** Only files that were modified at this time or later, in milliseconds since the epoch. */
  since?: number;
  /**
   * Only files that match one of these globs. A glob is matched with the path below the directory that was named; one
   * without a slash with the name of the file. Default: all.
   */
  include?: readonly string[];
  /** No files that match one of these globs, and none in directories that match one. Default: none. */
  exclude?: readonly string[];
}

export class ArchiveFilter {
  readonly #since: number;
  readonly #isIncluded: (place: string) => boolean;
  readonly #isExcluded: (place: string) => boolean;

  /** @throws InvalidOptionError */
  constructor({ since = Number.NEGATIVE_INFINITY, include = ["**"], exclude = [] }: ArchiveFilterOptions) {
    if (typeof since !== "number" || Number.isNaN(since))
      throw new InvalidOptionError("since", since, "pass milliseconds since the epoch");
    this.#since = since;
    this.#isIncluded = matcher("include", include);
    this.#isExcluded = matcher("exclude", exclude);
  }

  /** `place`: path below the directory that was named. */
  admits(place: string, { mtimeMs }: { mtimeMs: number }): boolean {
    return mtimeMs >= this.#since && this.#isIncluded(place) && !this.#isExcluded(place);
  }

  /** Whether all that is in this directory is left out. */
  excludes(place: string): boolean {
    return this.#isExcluded(place);
  }
}

function matcher(option: string, globs: readonly string[]): (place: string) => boolean {
  if (!Array.isArray(globs) || !globs.every((glob) => typeof glob === "string" && glob !== ""))
    throw new InvalidOptionError(option, JSON.stringify(globs), "pass an array of globs");
  const isName = picomatch(
    globs.filter((glob) => !glob.includes("/")),
    { dot: true },
  );
  const isPath = picomatch(
    globs.filter((glob) => glob.includes("/")),
    { dot: true },
  );
  return (place) => isName(basename(place)) || isPath(place.split(sep).join("/"));
}
