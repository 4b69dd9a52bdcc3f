import { createHash } from "node:crypto";
import { type FileHandle, open, stat } from "node:fs/promises";
import { ArchiveError } from "./errors.ts";

/**
 * An open file. It stays the same one while it is read, even if another takes its name, and ends where it ended when it
 * was opened, even if somebody appends to it.
 */
export class ArchiveFile implements AsyncDisposable {
  readonly path: string;
  /** Size in bytes when it was opened. */
  readonly size: number;
  readonly #handle: FileHandle;

  private constructor(path: string, size: number, handle: FileHandle) {
    this.path = path;
    this.size = size;
    this.#handle = handle;
  }

  /** @throws ArchiveError with code `path_not_found`, `unreadable` or `not_a_file` */
  static async open(path: string): Promise<ArchiveFile> {
    try {
      await assertRegularFile(path);
      const handle = await open(path, "r");
      return new ArchiveFile(path, (await handle.stat()).size, handle);
    } catch (error) {
      throw fileError(path, error);
    }
  }

  /**
   * Reads up to `length` bytes at `position` into the start of `buffer`.
   *
   * @returns 0 at the end of the file
   * @throws ArchiveError with code `unreadable`, or `file_changed` if it has become shorter
   */
  async read(buffer: Buffer, position: number, length: number): Promise<number> {
    const left = Math.min(length, this.size - position);
    if (left <= 0) return 0;
    const read = await this.#read(buffer, position, left);
    if (read === 0) throw fileChanged(this.path);
    return read;
  }

  /** SHA-256 of the whole file, in hexadecimal. `onRead` is called with the number of bytes after each read. */
  async sha256(onRead: (bytes: number) => void): Promise<string> {
    const hash = createHash("sha256");
    const block = Buffer.allocUnsafeSlow(HASH_BLOCK_BYTES);
    let position = 0;
    for (let length = -1; length !== 0; position += length) {
      length = await this.read(block, position, block.length);
      hash.update(block.subarray(0, length));
      onRead(length);
    }
    return hash.digest("hex");
  }

  async #read(buffer: Buffer, position: number, length: number): Promise<number> {
    try {
      return (await this.#handle.read(buffer, 0, length, position)).bytesRead;
    } catch (error) {
      throw fileError(this.path, error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

const HASH_BLOCK_BYTES = 1024 * 1024;

/** Opening a pipe would wait for its other end. */
async function assertRegularFile(path: string): Promise<void> {
  const stats = await stat(path);
  if (!stats.isFile())
    throw new ArchiveError("not_a_file", { path }, "this is no regular file: pass session files");
}

/** The file is not the one any more that was read before. */
export function fileChanged(path: string): ArchiveError {
  return new ArchiveError(
    "file_changed",
    { path },
    "the file was changed while it was read: import it again when nothing writes to it",
  );
}

/** What the operating system says against a path. */
export function fileError(path: string, error: unknown): unknown {
  if (error instanceof ArchiveError) return error;
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (code === "ENOENT" || code === "ENOTDIR") {
    return new ArchiveError("path_not_found", { path }, "there is no such file: check the path", {
      cause: error,
    });
  }
  if (code === undefined) return error;
  return new ArchiveError(
    "unreadable",
    { path },
    `it cannot be read (${code}): check its permissions and the disk`,
    {
      cause: error,
    },
  );
}
