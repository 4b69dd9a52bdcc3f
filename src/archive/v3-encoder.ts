import { branchTip, entryLabel, laneConfig, laneState, sessionName } from "../contract/address.ts";
import type { BranchSummaryEntry, CompactionEntry, Entry } from "../contract/entry.ts";
import { idleLaneState, type LaneConfiguration } from "../contract/lane.ts";
import type { AgentMessage } from "../contract/message.ts";
import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { StoredEntry, StoredUsage, StoredValueWrite, StoredWrite } from "../postgres/read-writes.ts";
import { CountedUsage } from "./counted-usage.ts";
import { importedUsage } from "./imported-usage.ts";
import { isJsonObject } from "./json-object.ts";
import { firstKeptEntry } from "./kept-tail.ts";
import type { LeftOut } from "./left-out.ts";
import {
  activeToolsLine,
  branchSummaryLine,
  compactionLine,
  customLine,
  customMessageLine,
  isCustomMessage,
  labelLine,
  messageLine,
  modelLine,
  nameLine,
  type RecordPlace,
  recordId,
  thinkingLevelLine,
  usageLine,
} from "./v3-lines.ts";

/** The last record of a file, after which pi goes on. */
export interface Leaf {
  /** `null` before the first record. */
  readonly id: string | null;
  /** The last entry on the way to it: itself, or the one that its labels and settings follow. */
  readonly entryId: string | null;
  /** When it was written, in milliseconds since the epoch. */
  readonly time: number;
}

/** Name and labels as the records of a file say them. */
export interface Said {
  readonly name: string | undefined;
  /** By labelled entry. */
  readonly labels: ReadonlyMap<string, string>;
}

const NOTHING_SAID: Said = { name: undefined, labels: new Map() };

/** Writes a session, from some `seq` on, as records of version 3: what pi would have appended to its file. */
export class V3Encoder {
  readonly #session: SessionSnapshot;
  readonly #leftOut: LeftOut;
  readonly #fromSeq: number;
  readonly #said: Said;
  readonly #usage = new CountedUsage();
  /** Labels by the entry that they wait for. */
  readonly #awaited = new Map<string, string>();
  /** Compactions that have what they retain once more before them. */
  readonly #repeating = new Set<string>();
  #leaf: Leaf;
  /** Whether each record so far follows the one before. */
  #isOnward = true;
  #name: string | undefined;
  /** Of `main`; `undefined` without such a branch. */
  #tip: string | null | undefined;
  /** Of the branch that was moved last. */
  #lastTip: string | null | undefined;
  #settings: Settings | undefined;

  /** `said`: what the records before `fromSeq` say. */
  constructor(
    session: SessionSnapshot,
    leftOut: LeftOut,
    { leaf, fromSeq, said = NOTHING_SAID }: { leaf: Leaf; fromSeq: number; said?: Said },
  ) {
    this.#session = session;
    this.#leftOut = leftOut;
    this.#leaf = leaf;
    this.#fromSeq = fromSeq;
    this.#said = said;
  }

  /** Lines with their line feeds. */
  async *lines(): AsyncGenerator<string> {
    this.#tip = await this.#stored<string | null>(TIPS, MAIN);
    this.#name = textOf(await this.#stored(sessionName.namespace, ""));
    this.#settings = await this.#storedSettings();
    for await (const group of this.#session.writes(this.#fromSeq)) {
      const seqs = await this.#session.seqsOf(group.filter(isLabel).map(({ key }) => key));
      for (const write of group) yield* this.#write(write, seqs);
    }
    yield* this.#removals();
    yield* this.#end();
  }

  async *#write(write: StoredWrite, seqs: ReadonlyMap<string, number>): AsyncGenerator<string> {
    switch (write.kind) {
      case "entry":
        yield* this.#entry(write);
        return;
      case "usage":
        yield* this.#usageRow(write);
        return;
      case "list":
        this.#leftOut.listElements++;
        return;
      case "value":
        yield* this.#value(write, seqs);
    }
  }

  async *#entry(stored: StoredEntry): AsyncGenerator<string> {
    const place = { id: stored.id, parentId: this.#parentOf(stored), time: stored.timestamp };
    this.#isOnward &&= place.parentId === this.#leaf.id;
    if (stored.type === "compaction") {
      yield* this.#compaction(parsed(stored) as CompactionEntry, place);
    } else if (stored.type === "branch_summary") {
      const summary = parsed(stored) as BranchSummaryEntry;
      yield branchSummaryLine(summary, place);
      this.#expectUsage(stored.id, summary.usage);
    } else if (stored.type === "custom") {
      yield customLine(stored, place);
    } else {
      yield this.#message(stored, place);
    }
    this.#leaf = { id: stored.id, entryId: stored.id, time: stored.timestamp };
    const label = this.#awaited.get(stored.id);
    if (label === undefined) return;
    this.#awaited.delete(stored.id);
    yield labelLine(stored.id, label, this.#follow(this.#newId("label", stored.id)));
  }

  /** The record that an entry follows: the last one, if nothing but labels and settings stand after its parent. */
  #parentOf({ id, parentId }: StoredEntry): string | null {
    if (this.#settings?.nextId === id && this.#settings.recordId !== undefined)
      return this.#settings.recordId;
    return this.#leaf.entryId === parentId ? this.#leaf.id : parentId;
  }

  #message(stored: StoredEntry, place: RecordPlace): string {
    if (stored.role === "assistant" || stored.role === "toolResult") {
      if (stored.payload.includes('"usage"')) {
        const { message } = parsed(stored) as Entry & { message: AgentMessage & { usage?: unknown } };
        this.#expectUsage(stored.id, message.usage);
      }
    } else if (stored.role === "custom" && stored.customType === undefined) {
      const { message, ...others } = JSON.parse(stored.payload) as { message: unknown };
      if (isCustomMessage(message, stored.timestamp) && Object.keys(others).length === 0)
        return customMessageLine(message, place);
    }
    return messageLine(stored, place);
  }

  async *#compaction(entry: CompactionEntry, place: RecordPlace): AsyncGenerator<string> {
    this.#expectUsage(entry.id, entry.usage);
    const firstKept = await firstKeptEntry(this.#session, entry, (id) => this.#repeating.has(id));
    if (firstKept !== undefined) {
      yield compactionLine(entry, firstKept, place);
      return;
    }
    // Written before the compaction, so that no other path changes.
    this.#repeating.add(entry.id);
    let { parentId } = place;
    const ids: string[] = [];
    for (const [number, message] of entry.retainedTail.entries()) {
      const id = recordId("retained", entry.id, number, parentId);
      const record = { id, parentId, type: "message", seq: 0, timestamp: place.time } as const;
      const payload = JSON.stringify({ message });
      yield messageLine(
        { kind: "entry", ...record, payload, role: message.role },
        { id, parentId, time: place.time },
      );
      ids.push(id);
      parentId = id;
      this.#leftOut.repeatedMessages++;
    }
    yield compactionLine(entry, ids[0] as string, { ...place, parentId });
  }

  #expectUsage(entryId: string, json: unknown): void {
    const usage = importedUsage(json);
    if (usage !== undefined) this.#usage.expect(entryId, usage);
  }

  *#usageRow(row: StoredUsage): Generator<string> {
    const usage = importedUsage(JSON.parse(row.usage));
    const isCounted =
      !row.adjustment && row.entryId !== null && usage !== undefined && this.#usage.count(row.entryId, usage);
    if (isCounted) return;
    const { parentId } = this.#follow(row.id);
    yield usageLine(row, { id: row.id, parentId, time: row.timestamp });
  }

  async *#value(write: StoredValueWrite, seqs: ReadonlyMap<string, number>): AsyncGenerator<string> {
    const { namespace, key, seq } = write;
    if (namespace === TIPS) {
      this.#lastTip = JSON.parse(write.value) as string | null;
      if (key !== MAIN) this.#leftOut.branches++;
    } else if (namespace === LABELS) {
      const label = textOf(JSON.parse(write.value));
      if (label === undefined || !seqs.has(key)) this.#leftOut.values++;
      else if ((seqs.get(key) as number) > seq) this.#awaited.set(key, label);
      else yield labelLine(key, label, this.#follow(this.#newId("label", seq)));
    } else if (namespace === sessionName.namespace && key === "") {
      if (this.#name === undefined) this.#leftOut.values++;
      else yield nameLine(this.#name, this.#follow(this.#newId("name", seq)));
    } else if (key === MAIN && namespace === CONFIGURATIONS && this.#settings !== undefined) {
      if (this.#settings.nextId !== undefined) yield* this.#configuration(this.#settings);
    } else if (
      !(key === MAIN && namespace === STATES && this.#settings !== undefined && isIdle(write.value))
    ) {
      this.#leftOut.values++;
    }
  }

  /** After the entries of then, or after what pi has appended there since. */
  *#configuration(settings: Settings): Generator<string> {
    const { configuration, anchorId, seq } = settings;
    const leaf = this.#leaf;
    let parentId = leaf.entryId === anchorId ? leaf.id : anchorId;
    const place = (what: string): RecordPlace => {
      const record = {
        id: recordId(what, this.#session.metadata.id, seq, parentId),
        parentId,
        time: leaf.time,
      };
      parentId = record.id;
      return record;
    };
    yield modelLine(configuration, place("model"));
    yield thinkingLevelLine(configuration, place("thinking"));
    // No record says that there are none, unless an earlier one may say that there are some.
    if (configuration.activeToolNames.length > 0 || this.#fromSeq > 1)
      yield activeToolsLine(configuration, place("tools"));
    settings.recordId = parentId as string;
    this.#leaf = { id: parentId, entryId: anchorId, time: leaf.time };
  }

  /** What the file says and the session does not any more. */
  async *#removals(): AsyncGenerator<string> {
    if (this.#said.name !== undefined && this.#name === undefined)
      yield nameLine("", this.#follow(this.#newId("name", "")));
    for (const target of this.#said.labels.keys()) {
      if (textOf(await this.#stored(LABELS, target)) === undefined)
        yield labelLine(target, undefined, this.#follow(this.#newId("label", target)));
    }
  }

  *#end(): Generator<string> {
    const tip = this.#tip === undefined ? this.#lastTip : this.#tip;
    this.#leftOut.values += this.#awaited.size;
    this.#leftOut.uncountedUsage = this.#usage.uncounted;
    if (this.#settings !== undefined && this.#isConfiguredLast(this.#settings, tip ?? null))
      yield* this.#configuration({ ...this.#settings, anchorId: tip ?? null });
    if (tip === undefined || tip === this.#leaf.entryId) return;
    // pi goes on after the last record, so there has to be one after the tip; the name once more changes nothing.
    this.#leaf = { id: tip, entryId: tip, time: this.#leaf.time };
    yield nameLine(this.#name ?? "", this.#follow(this.#newId("tip", this.#session.nextSeq)));
  }

  /** Whether the configuration has to come last: nothing of its path follows it, or that leaves the file's own path. */
  #isConfiguredLast({ seq, nextId }: Settings, tip: string | null): boolean {
    if (seq >= this.#fromSeq) return nextId === undefined;
    return !this.#isOnward || tip !== this.#leaf.entryId;
  }

  /** A place after the last record, as pi appends what is no entry. */
  #follow(id: string): RecordPlace {
    const { id: parentId, entryId, time } = this.#leaf;
    this.#leaf = { id, entryId, time };
    return { id, parentId, time };
  }

  #newId(what: string, which: string | number): string {
    return recordId(what, this.#session.metadata.id, which, this.#leaf.id);
  }

  async #stored<T>(namespace: string, key: string): Promise<T | undefined> {
    const found = await this.#session.value(namespace, key);
    return found === undefined ? undefined : (JSON.parse(found.value) as T);
  }

  /** Where on the path of `main` its lane was configured: after the entries of then, before those of later. */
  async #storedSettings(): Promise<Settings | undefined> {
    const found = await this.#session.value(CONFIGURATIONS, MAIN);
    const configuration: unknown = JSON.parse(found?.value ?? "null");
    if (found === undefined || !isConfiguration(configuration)) return undefined;
    const { seq } = found;
    if (this.#tip === undefined || this.#tip === null)
      return { configuration, seq, anchorId: null, nextId: undefined };
    const path = { start: this.#tip, cursor: { seq }, limit: 1 };
    const [anchor] = await this.#session.path({ ...path, order: "newestFirst" });
    const [next] = await this.#session.path({ ...path, order: "oldestFirst" });
    return { configuration, seq, anchorId: anchor?.id ?? null, nextId: next?.id };
  }
}

/** The configuration of the lane `main`, which in version 3 are records on its path. */
interface Settings {
  readonly configuration: LaneConfiguration;
  readonly seq: number;
  /** The entry that they follow. */
  readonly anchorId: string | null;
  /** The entry of the path that follows them; `undefined` if they come last. */
  readonly nextId: string | undefined;
  /** The last of their records, once it is written. */
  recordId?: string;
}

const MAIN = "main";
const TIPS = branchTip(MAIN).namespace;
const CONFIGURATIONS = laneConfig(MAIN).namespace;
const STATES = laneState(MAIN).namespace;
const LABELS = entryLabel("").namespace;

function isLabel(write: StoredWrite): write is StoredValueWrite {
  return write.kind === "value" && write.namespace === LABELS;
}

/** An empty name or label takes one away in version 3, and other JSON is none. */
function textOf(json: unknown): string | undefined {
  return typeof json === "string" && json !== "" ? json : undefined;
}

function isIdle(value: string): boolean {
  return value === JSON.stringify(idleLaneState());
}

function isConfiguration(json: unknown): json is LaneConfiguration {
  if (!isJsonObject(json)) return false;
  const { model, thinkingLevel, activeToolNames } = json;
  return (
    isJsonObject(model) &&
    typeof model["provider"] === "string" &&
    typeof model["modelId"] === "string" &&
    typeof thinkingLevel === "string" &&
    Array.isArray(activeToolNames)
  );
}

function parsed({ id, parentId, seq, timestamp, type, customType, payload }: StoredEntry): Entry {
  return { ...JSON.parse(payload), id, parentId, seq, timestamp, type, customType } as Entry;
}
