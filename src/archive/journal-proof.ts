import { createHash } from "node:crypto";
import type { ImportedWrite } from "../postgres/import-session.ts";
import { JournalReader, lentPart } from "./journal.ts";
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
    const payloads: (Buffer | undefined)[] = [];
    const given: Buffer[] = [];
    for (const write of writes) {
      if (write.kind === "entry" && lentMember(write) !== undefined) payloads.push(write.payloadJson);
    }
    for (const step of this.#reader.steps(journal)) {
      if ("verbatim" in step) {
        given.push(step.verbatim);
        continue;
      }
      this.#passed += step.skipped;
      given.push(lentPart(payloads[this.#passed++ - this.#sent] ?? NOTHING));
    }
    this.#sent += payloads.length;
    const bytes = Buffer.concat(given); // hashing many small pieces takes longer
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
  }

  /** After the last chunk. */
  digest(): { sha256: string; bytes: number } {
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes };
  }
}

const NOTHING = Buffer.alloc(0);
