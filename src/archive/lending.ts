import type { Entry } from "../contract/entry.ts";
import type { JournalWriter } from "./journal.ts";
import type { Place } from "./json-bytes.ts";

/** The member of a payload that a file may spell out; of other kinds of entries, the payload is made here. */
export function lentMember(entry: Entry): "message" | "data" | undefined {
  if (entry.type === "message") return "message";
  return entry.type === "custom" ? "data" : undefined;
}

/** Takes the payload of an entry from a line as it is spelled, and notes in the journal that it did. */
export class Lender {
  readonly #journal: JournalWriter;
  readonly #line: Buffer;
  #end = 0;

  constructor(journal: JournalWriter, line: Buffer) {
    this.#journal = journal;
    this.#line = line;
  }

  /**
   * Call it for the entries of a line in their order.
   *
   * @param place where the line has the value of the entry's {@link lentMember}; `undefined` if it has it otherwise
   * @returns the JSON text of the payload, for `ImportedWrite`; `undefined` if it has to be made
   */
  payloadText(entry: Entry, place: Place | undefined): string | undefined {
    const member = lentMember(entry);
    if (member === undefined) return undefined;
    if (place === undefined) {
      this.#journal.skip();
      return undefined;
    }
    this.#journal.verbatim(this.#line.subarray(this.#end, place.start));
    this.#journal.payload();
    this.#end = place.end;
    return `{"${member}":${this.#line.toString("utf8", place.start, place.end)}}`;
  }

  /** After the last entry of the line. */
  finish(options: { terminated: boolean }): void {
    this.#journal.verbatim(this.#line.subarray(this.#end));
    if (options.terminated) this.#journal.verbatim(LINE_FEED);
  }
}

const LINE_FEED = Buffer.from("\n");
