import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredArchive } from "../postgres/read-journal.ts";
import type { Added, OriginalPiece } from "./export-original.ts";
import { blocksOf } from "./export-v3.ts";
import { isJsonObject } from "./json-object.ts";
import type { LeftOut } from "./left-out.ts";
import { SkeletonLines } from "./skeleton-lines.ts";
import { type Leaf, V3Encoder } from "./v3-encoder.ts";
import { isRetainedType, isV3Type } from "./v3-record.ts";

/** What was added to a version 3 file: records after its last one. */
export class AddedV3 implements Added {
  /** pi ends such a line before it appends. */
  readonly afterTornLine = Buffer.from("\n");
  readonly #session: SessionSnapshot;
  readonly #archive: StoredArchive;
  readonly #leftOut: LeftOut;
  readonly #lines = new SkeletonLines();
  /** Of records that have no entry: the entry that they follow. */
  readonly #anchors = new Map<string, string | null>();
  #leaf: Leaf;

  constructor(session: SessionSnapshot, archive: StoredArchive, leftOut: LeftOut) {
    this.#session = session;
    this.#archive = archive;
    this.#leftOut = leftOut;
    this.#leaf = { id: null, entryId: null, time: session.metadata.createdAt };
  }

  see(piece: OriginalPiece): void {
    for (const record of this.#lines.add(piece)) {
      if (isJsonObject(record) && typeof record["id"] === "string" && record["type"] !== "session")
        this.#follow(record as { id: string });
    }
  }

  pieces(): AsyncIterable<Buffer> {
    const leaf = this.#leaf;
    const encoder = new V3Encoder(this.#session, this.#leftOut, {
      leaf,
      fromSeq: this.#archive.firstFreeSeq,
    });
    return blocksOf(encoder.lines());
  }

  #follow({ id, parentId, type, timestamp }: { id: string; [field: string]: unknown }): void {
    const parent = typeof parentId === "string" ? parentId : null;
    const time = Date.parse(String(timestamp));
    const hasEntry = typeof type === "string" && (!isV3Type(type) || isRetainedType(type));
    const entryId = hasEntry ? id : parent === null ? null : (this.#anchors.get(parent) ?? parent);
    if (!hasEntry) this.#anchors.set(id, entryId);
    this.#leaf = { id, entryId, time: Number.isFinite(time) ? time : this.#leaf.time };
  }
}
