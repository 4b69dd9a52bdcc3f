import type { OriginalPiece } from "./export-original.ts";
import { isJsonObject } from "./json-object.ts";

/** The whole lines of a file with 0 in the place of each payload: enough to follow its structure. */
export class SkeletonLines {
  #begun: Buffer[] = [];

  /** @returns the JSON of the lines that are whole now; those that are none are left out */
  add({ bytes, isPayload }: OriginalPiece): unknown[] {
    if (isPayload) {
      this.#begun.push(ZERO);
      return [];
    }
    const lines: unknown[] = [];
    let from = 0;
    for (let feed = bytes.indexOf(LINE_FEED); feed !== -1; feed = bytes.indexOf(LINE_FEED, from)) {
      const line = Buffer.concat([...this.#begun, bytes.subarray(from, feed)]);
      this.#begun = [];
      from = feed + 1;
      const json = jsonOf(line);
      if (isJsonObject(json) || Array.isArray(json)) lines.push(json);
    }
    if (from < bytes.length) this.#begun.push(bytes.subarray(from));
    return lines;
  }
}

function jsonOf(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString());
  } catch {
    return undefined; // a line that a lenient import could not use
  }
}

const ZERO = Buffer.from("0");
const LINE_FEED = 0x0a;
