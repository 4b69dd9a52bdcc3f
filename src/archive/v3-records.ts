import { type ArchiveFile, fileChanged } from "./archive-file.ts";
import { located } from "./errors.ts";
import type { V3Header } from "./header.ts";
import { LineWindow } from "./line-reader.ts";
import { V3Decoder } from "./v3-decoder.ts";
import type { V3Index } from "./v3-index.ts";
import { type V3Record, v3Record } from "./v3-record.ts";

/** Reads records of a version 3 file once more, by their numbers in its index. */
export class V3Records {
  readonly #file: ArchiveFile;
  readonly #index: V3Index;
  readonly #decoder: V3Decoder;
  readonly #window: LineWindow;

  constructor(file: ArchiveFile, header: V3Header, index: V3Index) {
    this.#file = file;
    this.#index = index;
    this.#decoder = new V3Decoder(header, index);
    this.#window = new LineWindow(file);
  }

  /** @returns `undefined` for an unusable one. @throws ArchiveError with code `file_changed` or `unreadable` */
  async at(number: number): Promise<V3Record | undefined> {
    if (this.#index.kind(number) === "unusable") return undefined;
    const { offset, length } = this.#index.place(number);
    return this.in(await this.#window.read(offset, length), number);
  }

  /** The record in its line. @throws ArchiveError with code `file_changed` */
  in(bytes: Buffer, number: number): V3Record {
    const line = this.#index.line(number);
    const record = located({ path: this.#file.path, line }, () =>
      v3Record(this.#decoder.decode(bytes, { number, line })),
    );
    if (record?.id !== this.#index.ids.idAt(number) || record.type !== this.#index.kind(number)) {
      throw fileChanged(this.#file.path);
    }
    return record;
  }
}
