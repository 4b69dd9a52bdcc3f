/**
 * Results as text that is equal on both sides exactly if the results are: payloads are compared as the JSON that
 * they are, key order included; ids that a side invented are replaced by their number; times by where they are from.
 */
import type {
  CommitResult,
  Entry,
  EntryStructure,
  ListElement,
  SessionMetadata,
  SessionStats,
  StoredValue,
  UsageRow,
} from "../../../src/index.ts";

export class Observer {
  /** Invented id → number that both sides gave it. */
  readonly #numbers = new Map<string, string>();

  /** Tells that this id was invented, as the `number`-th on this side. */
  learn(id: string, number: number): void {
    this.#numbers.set(id, `<${number}>`);
  }

  json(data: unknown): string | undefined {
    return JSON.stringify(data, (_key, inner) =>
      typeof inner === "string" ? (this.#numbers.get(inner) ?? inner) : inner,
    );
  }

  /** `committedAt` is what commits said, by `seq`; entries must say the same. */
  entry(entry: Entry | EntryStructure | undefined, committedAt: ReadonlyMap<number, number>): string {
    if (entry === undefined) return "no entry";
    const expected = committedAt.get(entry.seq);
    const isExpected =
      Number.isSafeInteger(entry.timestamp) && (expected ?? entry.timestamp) === entry.timestamp;
    return this.#fields({
      ...entry,
      timestamp: isExpected ? "as committed" : `${entry.timestamp}, but committed at ${expected}`,
    });
  }

  entries(entries: readonly (Entry | EntryStructure)[], committedAt: ReadonlyMap<number, number>): string {
    return lines(entries.map((entry) => this.entry(entry, committedAt)));
  }

  entryMap(entries: ReadonlyMap<string, Entry>, committedAt: ReadonlyMap<number, number>): string {
    return lines([...entries].map(([id, entry]) => `${this.json(id)} => ${this.entry(entry, committedAt)}`));
  }

  commit({ firstSeq, seqs, timestamp, stats }: CommitResult): string {
    const time = Number.isSafeInteger(timestamp) ? "a time" : String(timestamp);
    return `${firstSeq} [${seqs}] at ${time}: ${this.stats(stats)}`;
  }

  /** Totals may have overflowed to what JSON cannot say. */
  stats({ messageCount, usage: { cost, ...tokens } }: SessionStats): string {
    const numbers = (of: object) =>
      Object.entries(of)
        .filter(([, number]) => number !== undefined)
        .map(([name, number]) => `${name} ${number}`)
        .toSorted();
    return `${messageCount} messages; ${numbers(tokens)}; cost ${numbers(cost)}`;
  }

  value(stored: StoredValue<unknown> | undefined): string {
    return stored === undefined ? "no value" : this.#fields(stored);
  }

  values(stored: readonly StoredValue<unknown>[]): string {
    return lines(stored.map((one) => this.value(one)));
  }

  list(elements: readonly ListElement<unknown>[]): string {
    return lines(elements.map(({ seq, value }) => `${seq}: ${this.json(value)}`));
  }

  usage(rows: readonly UsageRow[]): string {
    return lines(rows.map((row) => this.#fields(row)));
  }

  metadata({ createdAt, ...metadata }: SessionMetadata): string {
    return this.#fields({ ...metadata, createdAt: Number.isSafeInteger(createdAt) ? "a time" : createdAt });
  }

  /** Which order a repository lists in is its own business. */
  catalog(sessions: readonly SessionMetadata[]): string {
    return lines(sessions.map((metadata) => this.metadata(metadata)).toSorted());
  }

  /** The order of a record's own fields says nothing. */
  #fields(record: object): string {
    return Object.entries(record)
      .map(([name, data]) => [name, this.json(data)] as const)
      .filter(([, text]) => text !== undefined)
      .map(([name, text]) => `${name}: ${text}`)
      .toSorted()
      .join(", ");
  }
}

function lines(texts: readonly string[]): string {
  return texts.length === 0 ? "none" : texts.join("\n");
}
