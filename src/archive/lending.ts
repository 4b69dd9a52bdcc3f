import type { Entry } from "../contract/entry.ts";
import type { ImportedWrite } from "../postgres/import-session.ts";
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
   * @returns the entry, with the text of its payload unless that has to be made
   */
  lent(entry: Entry & { kind: "entry" }, place: Place | undefined): ImportedWrite {
    const member = lentMember(entry);
    if (member === undefined) return entry;
    if (place === undefined) {
      this.#journal.skip();
      return entry;
    }
    this.#journal.verbatim(this.#line.subarray(this.#end, place.start));
    this.#journal.payload();
    this.#end = place.end;
    return Object.assign(entry, { payloadJson: payloadJson(member, this.#line, place) });
  }

  /** After the last entry of the line. */
  finish(options: { terminated: boolean }): void {
    this.#journal.verbatim(this.#line.subarray(this.#end));
    if (options.terminated) this.#journal.verbatim(LINE_FEED);
  }
}

/** An object with this one member, in UTF-8. */
function payloadJson(member: string, line: Buffer, { start, end }: Place): Buffer {
  const before = `{"${member}":`;
  const json = Buffer.allocUnsafe(before.length + end - start + 1);
  const at = json.write(before, "latin1");
  line.copy(json, at, start, end);
  json[json.length - 1] = BRACE_END;
  return json;
}

const BRACE_END = 0x7d;
const LINE_FEED = Buffer.from("\n");
