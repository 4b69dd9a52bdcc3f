import type { ArchiveFile } from "./archive-file.ts";
import type { V3Header } from "./header.ts";
import type { Inheritance } from "./inheritance.ts";
import type { LineFaults } from "./line-faults.ts";
import { LineReader } from "./line-reader.ts";
import type { ArchiveReplay } from "./replay.ts";
import type { V3Index } from "./v3-index.ts";
import { V3Replay } from "./v3-replay.ts";
import { V3Scan } from "./v3-scan.ts";

export type OnRead = (bytes: number) => void;

/** How often a file is read: for its structure, for its entries, for its usage. */
export const V3_PASSES = 3;

/** What a reading has found out about a whole file. */
export interface V3Structure {
  readonly header: V3Header;
  readonly index: V3Index;
  readonly sha256: string;
  readonly bytes: number;
  /** Bytes of an unterminated last line. */
  readonly tornBytes: number;
}

/**
 * A file of version 1, 2 or 3 as format-4 writes: its entries in file order, then the values that its other records
 * amount to, then one usage row for each record that spent something.
 */
export class V3Archive {
  readonly #file: ArchiveFile;
  readonly #structure: V3Structure;
  readonly #faults: LineFaults;
  readonly #onRead: OnRead;

  private constructor(file: ArchiveFile, structure: V3Structure, faults: LineFaults, onRead: OnRead) {
    this.#file = file;
    this.#structure = structure;
    this.#faults = faults;
    this.#onRead = onRead;
  }

  /**
   * Reads the structure of the file. An unterminated last line is left out: its writer was interrupted.
   *
   * @throws ArchiveError
   */
  static async read(
    file: ArchiveFile,
    header: V3Header,
    options: { inheritance: Inheritance; faults: LineFaults; onRead: OnRead },
  ): Promise<V3Archive> {
    const { faults, onRead } = options;
    const scan = new V3Scan(header, options);
    const reader = new LineReader(file, { onRead });
    let tornBytes = 0;
    for await (const line of reader) {
      if (line.terminated) scan.add(line);
      else tornBytes = line.bytes.length;
    }
    const structure = { header, index: scan.index, ...reader.digest(), tornBytes };
    return new V3Archive(file, structure, faults, onRead);
  }

  /** The same writes every time, from the bytes that `read` has seen. */
  replay(): ArchiveReplay {
    return new V3Replay(this.#file, this.#structure, this.#faults.copy(), this.#onRead);
  }
}
