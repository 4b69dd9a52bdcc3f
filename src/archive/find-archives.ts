import { readdir, realpath, stat } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import type { Context } from "../contract/context.ts";
import { fileError } from "./archive-file.ts";
import type { ArchiveFilter } from "./archive-filter.ts";
import { ArchiveError } from "./errors.ts";

/** A path that may be an archive, or why it cannot be one. */
export type Candidate =
  | {
      readonly path: string;
      /** In bytes. */
      readonly size: number;
      /** The caller named this very file, so that it must be an archive. */
      readonly isExplicit: boolean;
    }
  | { readonly path: string; readonly skipped: string }
  | { readonly path: string; readonly failure: ArchiveError };

/** What was found, in the order of names. */
export interface Found {
  readonly candidates: readonly Candidate[];
  /** How many files the filter left out, without those in directories that it left out. */
  readonly leftOut: number;
}

/**
 * The files that are named, and what has the name of an archive in and below the directories that are named, by name. Links are
 * followed, but no directory is read twice, so that links in circles end.
 */
export async function findArchives(
  paths: readonly string[],
  filter: ArchiveFilter,
  { abortSignal }: Context,
): Promise<Found> {
  const search = new Search(filter, abortSignal);
  for (const path of paths) await search.visit(path);
  return { candidates: search.candidates, leftOut: search.leftOut };
}

class Search {
  readonly candidates: Candidate[] = [];
  leftOut = 0;
  readonly #filter: ArchiveFilter;
  readonly #signal: AbortSignal | undefined;
  /** Real path to the path under which it was read. */
  readonly #directories = new Map<string, string>();

  constructor(filter: ArchiveFilter, signal: AbortSignal | undefined) {
    this.#filter = filter;
    this.#signal = signal;
  }

  /** `root` is the directory that the caller named; absent for what the caller named. */
  async visit(path: string, root?: string): Promise<void> {
    this.#signal?.throwIfAborted();
    const place = root === undefined ? basename(path) : relative(root, path);
    const isExplicit = root === undefined;
    try {
      const stats = await stat(path);
      if (stats.isDirectory()) {
        if (isExplicit || !this.#filter.excludes(place)) await this.#visitDirectory(path, root ?? path);
      } else if (isExplicit || isArchiveName(path)) {
        if (this.#filter.admits(place, stats)) this.#addFile(path, stats, isExplicit);
        else this.leftOut++;
      }
    } catch (error) {
      this.#fail(path, error);
    }
  }

  #addFile(path: string, stats: { size: number; isFile(): boolean }, isExplicit: boolean): void {
    if (stats.isFile()) {
      this.candidates.push({ path, size: stats.size, isExplicit });
    } else if (isExplicit) {
      const reason = "this is no regular file: pass session files or directories of them";
      this.candidates.push({ path, failure: new ArchiveError("not_a_file", { path }, reason) });
    } else {
      this.candidates.push({ path, skipped: "not a regular file" });
    }
  }

  async #visitDirectory(path: string, root: string): Promise<void> {
    const real = await realpath(path);
    const earlier = this.#directories.get(real);
    if (earlier !== undefined) {
      this.candidates.push({ path, skipped: `the same directory as ${earlier}, which was read already` });
      return;
    }
    this.#directories.set(real, path);
    const entries = await readdir(path, { withFileTypes: true });
    entries.sort((left, right) => (left.name < right.name ? -1 : 1));
    for (const entry of entries) {
      const child = join(path, entry.name);
      const isLinkedDirectory = entry.isSymbolicLink() && (await isDirectory(child));
      if (isArchiveName(entry.name) || entry.isDirectory() || isLinkedDirectory)
        await this.visit(child, root);
    }
  }

  #fail(path: string, error: unknown): void {
    const failure = fileError(path, error);
    if (!(failure instanceof ArchiveError)) throw failure;
    this.candidates.push({ path, failure });
  }
}

/** Of JSONL files, and of SQLite databases as pi and others call them. */
const ENDINGS = [".jsonl", ".sqlite", ".sqlite3", ".db"];

function isArchiveName(path: string): boolean {
  return ENDINGS.some((ending) => path.endsWith(ending));
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false; // a link to nowhere
  }
}
