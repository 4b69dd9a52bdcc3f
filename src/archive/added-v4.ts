import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredArchive } from "../postgres/read-journal.ts";
import type { Added, OriginalPiece } from "./export-original.ts";
import { v4Line } from "./export-v4.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";
import { SkeletonLines } from "./skeleton-lines.ts";

/** An address at which something is. */
interface Live {
  readonly kind: "value" | "list";
  readonly namespace: string;
  readonly key: string;
}

/** What was added to a format-4 file: a transaction for each write that still counts, and for each deletion. */
export class AddedV4 implements Added {
  /** pi takes such a line away before it appends. */
  readonly afterTornLine = undefined;
  readonly #session: SessionSnapshot;
  readonly #firstFreeSeq: number;
  readonly #lines = new SkeletonLines();
  /** Values and lists that are there at the end of the file. */
  readonly #live = new Map<string, Live>();

  constructor(session: SessionSnapshot, { firstFreeSeq }: StoredArchive) {
    this.#session = session;
    this.#firstFreeSeq = firstFreeSeq;
  }

  see(piece: OriginalPiece): void {
    for (const line of this.#lines.add(piece)) {
      for (const write of Array.isArray(line) ? line : [line]) if (isJsonObject(write)) this.#note(write);
    }
  }

  /** Each deletion took a `seq` of its own, in which no other write is stored: so there is room for it. */
  async *pieces(): AsyncGenerator<Buffer> {
    const deletions = await this.#deletions();
    let free = this.#firstFreeSeq;
    for await (const group of this.#session.writes(this.#firstFreeSeq)) {
      const lines: string[] = [];
      for (const write of group) {
        for (; free < write.seq && deletions.length > 0; free++) lines.push(deletionLine(deletions, free));
        lines.push(v4Line(write));
        free = write.seq + 1;
      }
      yield Buffer.from(lines.join(""));
    }
    for (; deletions.length > 0; free++) yield Buffer.from(deletionLine(deletions, free));
  }

  /** Those come first that something was appended after. */
  async #deletions(): Promise<Live[]> {
    const deletions: { live: Live; before: number }[] = [];
    for (const live of this.#live.values()) {
      const seq = await this.#session.firstSeq(live);
      const isGone = seq === undefined || (live.kind === "list" && seq >= this.#firstFreeSeq);
      if (isGone) deletions.push({ live, before: seq ?? this.#session.nextSeq });
    }
    return deletions.sort((left, right) => left.before - right.before).map(({ live }) => live);
  }

  #note({ kind, op, namespace, key }: JsonObject): void {
    if ((kind !== "value" && kind !== "list") || typeof namespace !== "string" || typeof key !== "string")
      return;
    const address = `${kind}\0${namespace}\0${key}`;
    if (op === "delete") this.#live.delete(address);
    else this.#live.set(address, { kind, namespace, key });
  }
}

function deletionLine(deletions: Live[], seq: number): string {
  const { kind, namespace, key } = deletions.shift() as Live;
  return `${JSON.stringify({ kind, op: "delete", seq, namespace, key })}\n`;
}
