import { access, constants, readFile, rename, rm, writeFile } from "node:fs/promises";
import { InvalidArgumentError } from "commander";

/** The file in which one run of an export leaves for the next how far it got. */
export class CursorFile {
  /** What the last run left; `undefined` if there was none. */
  readonly cursor: string | undefined;
  readonly #path: string;
  readonly #draft: string;

  private constructor(path: string, draft: string, cursor: string | undefined) {
    this.#path = path;
    this.#draft = draft;
    this.cursor = cursor;
  }

  /**
   * Makes sure that it can be written too, before rows are printed that the next run would print again.
   *
   * @throws InvalidArgumentError
   */
  static async open(path: string): Promise<CursorFile> {
    const draft = `${path}.tmp`;
    try {
      const cursor = await cursorIn(path);
      await writeFile(draft, "");
      await rm(draft);
      return new CursorFile(path, draft, cursor);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (error instanceof InvalidArgumentError || code === undefined) throw error;
      throw new InvalidArgumentError(
        `The cursor file ${path} cannot be used (${code}): name a file that can be read and replaced.`,
      );
    }
  }

  async write(cursor: string): Promise<void> {
    await writeFile(this.#draft, `${cursor}\n`);
    await rename(this.#draft, this.#path);
  }
}

async function cursorIn(path: string): Promise<string | undefined> {
  try {
    const cursor = (await readFile(path, "utf8")).trim();
    await access(path, constants.W_OK);
    if (cursor !== "") return cursor;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  throw new InvalidArgumentError(
    `The cursor file ${path} is empty: put the cursor of the last row that you have into it, or delete it to export everything.`,
  );
}
