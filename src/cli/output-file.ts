import { randomUUID } from "node:crypto";
import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { InvalidArgumentError } from "commander";
import { nameFile } from "../archive/name-file.ts";

/** Where a command writes what it found. */
export interface OutputFile {
  path: string;
  /** Whether a file that is there already is replaced. */
  force: boolean;
}

/**
 * Before the work is done of which the file is to hold the result.
 *
 * @throws InvalidArgumentError
 */
export async function assertFree({ path, force }: OutputFile): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isDirectory()) throw new InvalidArgumentError(`${path} is a directory: name a file.`);
  if (found !== undefined && !force) throw taken(path);
}

/**
 * The file is there whole or not at all, whenever the command ends.
 *
 * @throws InvalidArgumentError
 */
export async function writeWhole(file: OutputFile, data: string | Uint8Array): Promise<void> {
  const { path, force } = file;
  const partial = `${path}.${randomUUID()}.tmp`;
  try {
    await writeFile(partial, data, { flag: "wx" });
    if (force) await rename(partial, path);
    else if (!(await nameFile(partial, path))) throw taken(path);
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error;
    // The rest of the message names the partial file.
    const [reason = ""] = (error instanceof Error ? error.message : String(error)).split(",");
    throw new InvalidArgumentError(`${path} cannot be written (${reason}): name another file.`);
  } finally {
    await rm(partial, { force: true });
  }
}

function taken(path: string): InvalidArgumentError {
  return new InvalidArgumentError(`${path} exists: name another file, or replace it with --force.`);
}
