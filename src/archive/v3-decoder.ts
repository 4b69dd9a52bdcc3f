import { LineFault } from "./errors.ts";
import type { V3Header } from "./header.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";
import { LegacyRecords } from "./legacy.ts";
import { jsonOf } from "./line-reader.ts";
import type { V3Index } from "./v3-index.ts";

/** Reads the records of versions 1 to 3; all of them come out as version 3. */
export class V3Decoder {
  readonly #legacy: LegacyRecords | undefined;
  readonly #index: V3Index;

  constructor({ format, id }: V3Header, index: V3Index) {
    this.#legacy = format === 3 ? undefined : new LegacyRecords(format, id);
    this.#index = index;
  }

  /** `number`: that of the record in the index, or the next one. @throws LineFault */
  decode(bytes: Buffer, { number, line }: { number: number; line: number }): JsonObject {
    const json = jsonOf(bytes);
    if (!isJsonObject(json)) throw new LineFault("invalid_record", "the line is no JSON object");
    if (this.#legacy === undefined) return json;
    const { ids } = this.#index;
    return this.#legacy.upgraded(json, {
      line,
      previousId: number === 0 ? null : ids.idAt(number - 1),
      idAt: (other) => (other >= 0 && other < number ? ids.idAt(other) : undefined),
    });
  }
}
