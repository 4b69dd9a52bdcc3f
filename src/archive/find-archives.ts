import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileError } from "./archive-file.ts";
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

/**
 * The files that are named, and all `*.jsonl` in and below the directories that are named, by name. Links are
 * followed, but no directory is read twice, so that links in circles end.
 */
export async function findArchives(paths: readonly string[]): Promise<Candidate[]> {
  const search = new Search();
  for (const path of paths) await search.visit(path, true);
  return search.found;
}

class Search {
  readonly found: Candidate[] = [];
  /** Real path to the path under which it was read. */
  readonly #directories = new Map<string, string>();

  async visit(path: string, isExplicit: boolean): Promise<void> {
    try {
      const stats = await stat(path);
      if (stats.isDirectory()) await this.#visitDirectory(path);
      else if (isExplicit || isArchiveName(path)) this.#addFile(path, stats, isExplicit);
    } catch (error) {
      this.#fail(path, error);
    }
  }

  #addFile(path: string, stats: { size: number; isFile(): boolean }, isExplicit: boolean): void {
    if (stats.isFile()) {
      this.found.push({ path, size: stats.size, isExplicit });
    } else if (isExplicit) {
      const reason = "this is no regular file: pass session files or directories of them";
      this.found.push({ path, failure: new ArchiveError("not_a_file", { path }, reason) });
    } else {
      this.found.push({ path, skipped: "not a regular file" });
    }
  }

  async #visitDirectory(path: string): Promise<void> {
    const real = await realpath(path);
    const earlier = this.#directories.get(real);
    if (earlier !== undefined) {
      this.found.push({ path, skipped: `the same directory as ${earlier}, which was read already` });
      return;
    }
    this.#directories.set(real, path);
    const entries = await readdir(path, { withFileTypes: true });
    entries.sort((left, right) => (left.name < right.name ? -1 : 1));
    for (const entry of entries) {
      const child = join(path, entry.name);
      const isLinkedDirectory = entry.isSymbolicLink() && (await isDirectory(child));
      if (isArchiveName(entry.name) || entry.isDirectory() || isLinkedDirectory)
        await this.visit(child, false);
    }
  }

  #fail(path: string, error: unknown): void {
    const failure = fileError(path, error);
    if (!(failure instanceof ArchiveError)) throw failure;
    this.found.push({ path, failure });
  }
}

function isArchiveName(path: string): boolean {
  return path.endsWith(".jsonl");
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false; // a link to nowhere
  }
}
