import { v5 as uuidv5 } from "uuid";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/** Where a record of an old file stands. */
export interface LegacyPlace {
  /** Counted from 1. */
  readonly line: number;
  /** Id of the record before it. */
  readonly previousId: string | null;
  /** Tells the id of a record by its position, counted from 0. */
  idAt(number: number): string | undefined;
}

/** Makes version 3 of the records of older files, as pi does when it opens one, but always with the same ids. */
export class LegacyRecords {
  readonly #version: 1 | 2;
  readonly #namespace: string;

  constructor(version: 1 | 2, sessionId: string) {
    this.#version = version;
    this.#namespace = uuidv5(sessionId, SESSIONS);
  }

  upgraded(json: JsonObject, place: LegacyPlace): JsonObject {
    const record = this.#version === 1 ? this.#placed(json, place) : json;
    const message = record["message"];
    return record["type"] === "message" && isJsonObject(message) && message["role"] === "hookMessage"
      ? { ...record, message: { ...message, role: "custom" } }
      : record;
  }

  /** Version 1 is a list: a record follows the one before it. */
  #placed(json: JsonObject, { line, previousId: parentId, idAt }: LegacyPlace): JsonObject {
    if (json["type"] === "session") return json;
    const id = uuidv5(String(line), this.#namespace);
    if (json["type"] !== "compaction") return { ...json, id, parentId };
    const { firstKeptEntryIndex, ...compaction } = json;
    // Counted with the header.
    const kept = typeof firstKeptEntryIndex === "number" ? idAt(firstKeptEntryIndex - 1) : undefined;
    // One that keeps nothing names itself.
    return { ...compaction, id, parentId, firstKeptEntryId: json["firstKeptEntryId"] ?? kept ?? id };
  }
}

/** Namespace of the ids of version 1: another one would import old files a second time. */
const SESSIONS = "6f0f4c0e-53a4-4c5a-9a55-1d6b6a0f9b1e";
