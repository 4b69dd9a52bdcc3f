import { createHash } from "node:crypto";
import type { ImportedWrite } from "../postgres/import-session.ts";
import { JournalReader, lentText } from "./journal.ts";
import { lentMember } from "./lending.ts";

/** Runs a journal over what is sent to the database, and hashes the bytes that this gives. */
export class JournalProof {
  readonly #reader = new JournalReader();
  readonly #hash = createHash("sha256");
  #bytes = 0;
  /** How many entries the journal has passed. */
  #passed = 0;
  /** How many entries that can lend their payload were sent before the current chunk. */
  #sent = 0;

  /** What a chunk refers to is in the chunk. */
  add(writes: readonly ImportedWrite[], journal: Buffer): void {
    const texts: (string | undefined)[] = [];
    for (const write of writes) {
      if (write.kind === "entry" && lentMember(write) !== undefined) texts.push(write.payloadText);
    }
    for (const step of this.#reader.steps(journal)) {
      if ("verbatim" in step) {
        this.#write(step.verbatim);
        continue;
      }
      this.#passed += step.skipped;
      this.#write(Buffer.from(lentText(texts[this.#passed++ - this.#sent] ?? "")));
    }
    this.#sent += texts.length;
  }

  /** After the last chunk. */
  digest(): { sha256: string; bytes: number } {
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes };
  }

  #write(bytes: Buffer): void {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }
}
