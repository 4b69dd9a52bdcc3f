import {
  branchTip,
  entryLabel,
  laneConfig,
  laneState,
  sessionName,
  type Value,
} from "../contract/address.ts";
import { idleLaneState, type LaneConfiguration, type ThinkingLevel } from "../contract/lane.ts";
import { setValue, type ValueSetWrite } from "../contract/write.ts";
import { LineFault } from "./errors.ts";
import type { LineFaults } from "./line-faults.ts";
import { NONE, type V3Index, type V3Kind } from "./v3-index.ts";
import type { V3Record } from "./v3-record.ts";
import type { V3Records } from "./v3-records.ts";

/** A value, and the number of the record that says it. */
export interface V3Value {
  readonly write: ValueSetWrite;
  readonly number: number;
}

/** What the records of a version 3 file that have no entry amount to. The index must be that of the whole file. */
export class V3Values {
  readonly #index: V3Index;
  readonly #records: V3Records;
  readonly #faults: LineFaults;

  constructor(index: V3Index, records: V3Records, faults: LineFaults) {
    this.#index = index;
    this.#records = records;
    this.#faults = faults;
  }

  async *all(): AsyncGenerator<V3Value> {
    const name = await this.#name();
    if (name !== undefined) yield value(sessionName, name.text, name.number);
    for (const [target, { label, number }] of await this.#labels()) {
      yield value(entryLabel(target), label, number);
    }
    const last = this.#index.size - 1;
    yield value(branchTip("main"), last < 0 ? null : this.#index.entryId(last), last);
    const configuration = await this.#configuration(last);
    if (configuration === undefined) return;
    yield value(laneConfig("main"), configuration, last);
    yield value(laneState("main"), idleLaneState(), last);
  }

  /** The last name counts, and an empty one takes the name away. */
  async #name(): Promise<{ text: string; number: number } | undefined> {
    for (let number = this.#index.size - 1; number >= 0; number--) {
      if (this.#index.kind(number) !== "session_info") continue;
      const { name } = (await this.#records.at(number)) as V3Record & { type: "session_info" };
      return name ? { text: name, number } : undefined;
    }
    return undefined;
  }

  /** By labelled entry, in the order in which they were first labelled. */
  async #labels(): Promise<Map<string, { label: string; number: number }>> {
    const labels = new Map<string, { label: string; number: number }>();
    for (let number = 0; number < this.#index.size; number++) {
      if (this.#index.kind(number) !== "label") continue;
      const { targetId, label } = (await this.#records.at(number)) as V3Record & { type: "label" };
      const target = this.#try(number, () => this.#index.resolve("the labelled entry", targetId)) ?? null;
      if (target === null) continue;
      if (label) labels.set(target, { label, number });
      else labels.delete(target);
    }
    return labels;
  }

  /** The nearest change of each kind above the tip. Without a model or a thinking level there is no lane. */
  async #configuration(tip: number): Promise<LaneConfiguration | undefined> {
    const wanted = new Set<V3Kind>(["model_change", "thinking_level_change", "active_tools_change"]);
    let model: LaneConfiguration["model"] | undefined;
    let thinkingLevel: ThinkingLevel | undefined;
    let activeToolNames: string[] = [];
    for (let at = tip; at !== NONE && wanted.size > 0; at = this.#index.parent(at)) {
      if (!wanted.delete(this.#index.kind(at))) continue;
      const record = await this.#records.at(at);
      if (record?.type === "model_change") model = { provider: record.provider, modelId: record.modelId };
      if (record?.type === "thinking_level_change") thinkingLevel = record.thinkingLevel as ThinkingLevel;
      if (record?.type === "active_tools_change")
        activeToolNames = this.#try(at, () => toolNames(record.activeToolNames)) ?? [];
    }
    return model === undefined || thinkingLevel === undefined
      ? undefined
      : { model, thinkingLevel, activeToolNames };
  }

  /** `undefined` where a lenient reading goes on without. */
  #try<T>(number: number, work: () => T): T | undefined {
    return this.#faults.try(this.#index.line(number), work);
  }
}

function value<T>(address: Value<T>, next: NoInfer<T>, number: number): V3Value {
  return { write: setValue(address, next), number };
}

function toolNames(names: unknown): string[] {
  if (!Array.isArray(names))
    throw new LineFault("invalid_record", "the `activeToolNames` of the record are no list");
  return [...names];
}
