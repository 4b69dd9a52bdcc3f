import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { InvalidArgumentError } from "commander";
import { jsonText } from "./output.ts";

/**
 * A file of JSON that appears when it is complete, and replaces an older one then. It is begun early, so that a path
 * that cannot be written to shows before the work.
 */
export class ReportFile implements AsyncDisposable {
  readonly #path: string;
  readonly #temporary: string;
  readonly #handle: FileHandle;

  private constructor(path: string, temporary: string, handle: FileHandle) {
    this.#path = path;
    this.#temporary = temporary;
    this.#handle = handle;
  }

  /** @throws InvalidArgumentError when nothing can be written there */
  static async begin(path: string): Promise<ReportFile> {
    const temporary = `${path}.${process.pid}.tmp`;
    try {
      return new ReportFile(path, temporary, await open(temporary, "w"));
    } catch (error) {
      const { code = "unknown" } = error as NodeJS.ErrnoException;
      throw new InvalidArgumentError(
        `--report ${path} cannot be written (${code}): check its directory and permissions.`,
      );
    }
  }

  async write(report: unknown): Promise<void> {
    await this.#handle.writeFile(`${jsonText(report)}\n`);
    await this.#handle.sync();
    await rename(this.#temporary, this.#path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
    await rm(this.#temporary, { force: true });
  }
}
