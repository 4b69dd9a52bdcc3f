import { LineFault } from "./errors.ts";
import type { V3Header } from "./header.ts";
import { memberPlaces, type Place, parseWithLast } from "./json-bytes.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";
import { LegacyRecords } from "./legacy.ts";
import { assertUtf8, jsonOf } from "./line-reader.ts";
import type { V3Index } from "./v3-index.ts";
import type { V3RetainedRecord } from "./v3-record.ts";

/** Reads the records of versions 1 to 3; all of them come out as version 3. */
export class V3Decoder {
  readonly #legacy: LegacyRecords | undefined;
  readonly #index: V3Index;
  /** Where the line that was decoded last has its message, if that is known. */
  #message: Place | undefined;
  /** Not below zero while most messages stand last in their line, as pi writes them. */
  #lastOnes = 0;

  constructor({ format, id }: V3Header, index: V3Index) {
    this.#legacy = format === 3 ? undefined : new LegacyRecords(format, id);
    this.#index = index;
  }

  /** `number`: that of the record in the index, or the next one. @throws LineFault */
  decode(bytes: Buffer, { number, line }: { number: number; line: number }): JsonObject {
    const json = this.#parse(bytes);
    if (this.#legacy === undefined) return json;
    const { ids } = this.#index;
    return this.#legacy.upgraded(json, {
      line,
      previousId: number === 0 ? null : ids.idAt(number - 1),
      idAt: (other) => (other >= 0 && other < number ? ids.idAt(other) : undefined),
    });
  }

  /** Where the line that was decoded last spells what the payload of the record's entry holds. */
  payloadPlace(record: V3RetainedRecord, bytes: Buffer): Place | undefined {
    // Payloads of the others are made from several fields.
    if (record.type === "custom") return memberPlaces(bytes, "data")[0];
    if (record.type !== "message") return undefined;
    const isRenamed = this.#legacy !== undefined && record.message.role === "custom";
    return isRenamed ? undefined : (this.#message ?? memberPlaces(bytes, "message")[0]);
  }

  #parse(bytes: Buffer): JsonObject {
    assertUtf8(bytes);
    const split = this.#lastOnes < 0 ? undefined : parseWithLast(bytes, "message");
    this.#message = split?.place;
    if (split !== undefined) {
      this.#lastOnes++;
      return split.object;
    }
    const json = jsonOf(bytes);
    if (!isJsonObject(json)) throw new LineFault("invalid_record", "the line is no JSON object");
    if (json["message"] !== undefined) this.#lastOnes--;
    return json;
  }
}
