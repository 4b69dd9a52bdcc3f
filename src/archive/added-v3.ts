import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredArchive } from "../postgres/read-journal.ts";
import type { Added, OriginalPiece } from "./export-original.ts";
import { blocksOf } from "./export-v3.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";
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
  readonly #labels = new Map<string, string>();
  #name: string | undefined;
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
        this.#follow(record as PlacedJson);
    }
  }

  pieces(): AsyncIterable<Buffer> {
    const said = { name: this.#name, labels: this.#labels };
    const from = { leaf: this.#leaf, fromSeq: this.#archive.firstFreeSeq, said };
    return blocksOf(new V3Encoder(this.#session, this.#leftOut, from).lines());
  }

  #follow(record: PlacedJson): void {
    const { id, parentId, type, timestamp } = record;
    const time = Date.parse(String(timestamp));
    const hasEntry = typeof type === "string" && (!isV3Type(type) || isRetainedType(type));
    const entryId = hasEntry ? id : this.#entryOf(parentId);
    if (!hasEntry) this.#anchors.set(id, entryId);
    this.#leaf = { id, entryId, time: Number.isFinite(time) ? time : this.#leaf.time };
    if (type === "session_info") this.#name = textOf(record["name"]);
    if (type === "label") this.#label(record);
  }

  #label({ targetId, label }: PlacedJson): void {
    const target = this.#entryOf(targetId);
    const text = textOf(label);
    if (target === null) return;
    if (text === undefined) this.#labels.delete(target);
    else this.#labels.set(target, text);
  }

  #entryOf(id: unknown): string | null {
    if (typeof id !== "string") return null;
    const anchor = this.#anchors.get(id);
    return anchor === undefined ? id : anchor;
  }
}

type PlacedJson = JsonObject & { id: string };

/** An empty name or label is none. */
function textOf(json: unknown): string | undefined {
  return typeof json === "string" && json !== "" ? json : undefined;
}
