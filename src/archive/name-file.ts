import { link, lstat, rename } from "node:fs/promises";

/**
 * Gives a finished draft the name that it is to have, unless a file has it. A second name, unlike a new one, replaces
 * nothing that somebody has put there in the meantime; where the file system has no second names, the last look comes
 * right before.
 *
 * @returns false if the name is taken
 * @throws NodeJS.ErrnoException
 */
export async function nameFile(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    if (!WITHOUT_LINKS.has(code)) throw error;
  }

  if (await isTaken(path)) return false;
  await rename(draft, path);
  return true;
}

/** Also by a link that leads nowhere. @throws NodeJS.ErrnoException */
export async function isTaken(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** What a file system says that has no links. */
const WITHOUT_LINKS: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "ENOSYS"]);
