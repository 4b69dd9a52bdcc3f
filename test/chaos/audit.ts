import { Client } from "pg";
import {
  addUsage,
  BACKGROUND_CONTEXT as context,
  emptyUsage,
  openDatabase,
  type PgSessionRepo,
} from "../../src/index.ts";
import type { Kind, Tried } from "./journal.ts";

/** What became of all attempts. */
export interface Audit {
  readonly counts: {
    acknowledged: number;
    refused: number;
    unknown: number;
    /** Entries, usage rows and list elements that the attempts have left. */
    found: number;
    /** Of the unknown ones that leave something to be found: those that had happened. */
    happened: number;
  };
  /** Promises that were not kept. */
  readonly violations: readonly string[];
}

/**
 * Compares what the writers were told with what is stored.
 *
 * @param connectionString of a superuser, straight to the server
 * @param writers the attempts of each writer, in its order
 */
export async function audit(
  connectionString: string,
  schema: string,
  sessions: readonly string[],
  writers: readonly (readonly Tried[])[],
): Promise<Audit> {
  const database = await openDatabase({ connectionString, schema });
  const client = new Client({ connectionString });
  await client.connect();
  try {
    await client.query(`set search_path = "${schema}"`);
    const repo = await database.repo("default");
    const books = new Books();
    for (const tried of writers.flat()) books.count(tried);
    for (const id of sessions) {
      const stored = await readSession(client, id);
      const attempts = writers.flat().filter(({ session }) => session === id);
      const session = new SessionAudit(id, stored, attempts, books);
      session.compareEntries();
      session.compareLedgerAndList();
      session.compareCounters();
      session.compareBranches();
      for (const writer of writers) session.compareOrder(writer.filter((tried) => tried.session === id));
      await session.compareStats(repo);
    }
    await repo.verify(
      { onFinding: ({ check, sessionId, what }) => books.blame(`verify: ${check} in ${sessionId}: ${what}`) },
      context,
    );
    return books;
  } finally {
    await client.end();
    await database.close();
  }
}

class Books implements Audit {
  readonly counts = { acknowledged: 0, refused: 0, unknown: 0, found: 0, happened: 0 };
  readonly violations: string[] = [];

  count({ outcome }: Tried): void {
    this.counts[outcome.is]++;
  }

  blame(violation: string): void {
    this.violations.push(violation);
  }
}

interface StoredEntry {
  id: string;
  parentId: string | null;
  seq: number;
  type: string;
  customType: string | null;
  payload: { message?: { content: string }; data?: string | { token: string; next: number } };
}

interface StoredSession {
  entries: StoredEntry[];
  usage: { id: string; seq: number }[];
  /** Of the list. */
  elements: { token: string; seq: number }[];
  /** By `namespace/key`. */
  values: ReadonlyMap<string, { value: unknown; seq: number }>;
  nextSeq: number;
}

async function readSession(client: Client, id: string): Promise<StoredSession> {
  const rows = async (columns: string, table: string) =>
    (await client.query(`select ${columns} from ${table} where session_id = $1 order by seq`, [id])).rows;
  const entries = await rows("entry_id, parent_id, seq, type, custom_type, payload::text", "entries");
  const usage = await rows("usage_id, seq", "usage_ledger");
  const elements = await rows("value::text, seq", "list_values");
  const values = await rows("namespace, key, value::text, seq", "scalar_values");
  const { rows: row } = await client.query("select next_seq from sessions where session_id = $1", [id]);
  return {
    entries: entries.map((entry) => ({
      id: entry.entry_id,
      parentId: entry.parent_id,
      seq: Number(entry.seq),
      type: entry.type,
      customType: entry.custom_type,
      payload: JSON.parse(entry.payload),
    })),
    usage: usage.map(({ usage_id, seq }) => ({ id: usage_id, seq: Number(seq) })),
    elements: elements.map(({ value, seq }) => ({ token: JSON.parse(value), seq: Number(seq) })),
    values: new Map(
      values.map(({ namespace, key, value, seq }) => [
        `${namespace}/${key}`,
        { value: JSON.parse(value), seq: Number(seq) },
      ]),
    ),
    nextSeq: Number(row[0]?.next_seq),
  };
}

class SessionAudit {
  readonly #id: string;
  readonly #stored: StoredSession;
  readonly #attempts: readonly Tried[];
  readonly #books: Books;

  constructor(id: string, stored: StoredSession, attempts: readonly Tried[], books: Books) {
    this.#id = id;
    this.#stored = stored;
    this.#attempts = attempts;
    this.#books = books;
  }

  /** Acknowledged ones are there once, as acknowledged; refused ones are not; of the others at most one each. */
  compareEntries(): void {
    const found = groupBy(this.#stored.entries, tokenOf);
    for (const tried of this.#of("append", "commit", "count")) {
      const { token, kind, outcome } = tried;
      const entries = found.get(token) ?? [];
      found.delete(token);
      this.#books.counts.found += entries.length;
      this.#judge(tried, entries.length);
      if (outcome.is === "unknown" && entries.length > 0) this.#books.counts.happened++;
      const [entry] = entries;
      if (entry === undefined || outcome.is !== "acknowledged") continue;
      const { id, seq = entry.seq } = outcome.what.entry ?? { id: "" };
      if (entry.id !== id || entry.seq !== seq) {
        this.#blame(`${kind} ${token} was acknowledged as ${id} (${seq}) and is ${entry.id} (${entry.seq})`);
      }
    }
    for (const [token, entries] of found) {
      this.#blame(`nobody has tried what ${entries.map(({ id }) => id).join(", ")} says: ${token}`);
    }
    const { seqs, nextSeq } = this.#numbers();
    for (const [index, seq] of seqs.entries()) {
      if (index > 0 && seq === seqs[index - 1]) this.#blame(`two writes have the seq ${seq}`);
      if (seq >= nextSeq) this.#blame(`the seq ${seq} is not below the next one, ${nextSeq}`);
    }
  }

  /** What was committed together is there together. */
  compareLedgerAndList(): void {
    const entries = new Map(this.#stored.entries.map((entry) => [entry.id, entry]));
    const usage = groupBy(this.#stored.usage, ({ id }) => id);
    const elements = groupBy(this.#stored.elements, ({ token }) => token);
    for (const { token, outcome } of this.#of("commit")) {
      const rows = usage.get(`u-${token}`) ?? [];
      const listed = elements.get(token) ?? [];
      usage.delete(`u-${token}`);
      elements.delete(token);
      this.#books.counts.found += rows.length + listed.length;
      const expected = entries.has(`e-${token}`) ? 1 : 0;
      if (rows.length !== expected || listed.length !== expected) {
        this.#blame(
          `commit ${token}: ${expected} entries, ${rows.length} usage rows, ${listed.length} elements`,
        );
      }
      if (outcome.is !== "acknowledged") continue;
      const { usage: row, element } = outcome.what;
      if (rows[0]?.seq !== row?.seq || listed[0]?.seq !== element?.seq) {
        this.#blame(`commit ${token}: its usage row or element has another seq than was acknowledged`);
      }
    }
    for (const id of usage.keys()) this.#blame(`nobody has tried the usage row ${id}`);
    for (const token of elements.keys()) this.#blame(`nobody has tried the element ${token}`);
  }

  compareCounters(): void {
    const numberAt = (address: string) => Number(this.#stored.values.get(`${address}/`)?.value ?? 0);
    const counted = this.#stored.entries.filter(({ customType }) => customType === "count");
    counted.forEach(({ id, payload }, index) => {
      const { next } = payload.data as { next: number };
      if (next !== index + 1) this.#blame(`${id} counts ${next} where ${index + 1} comes next`);
    });
    const count = numberAt("chaos.count");
    if (count !== counted.length) this.#blame(`the count is ${count} after ${counted.length} commits of it`);

    const outcomes = groupBy(this.#of("increment"), ({ outcome }) => outcome.is);
    const least = outcomes.get("acknowledged")?.length ?? 0;
    const most = least + (outcomes.get("unknown")?.length ?? 0);
    const increments = numberAt("chaos.increments");
    if (increments < least || increments > most) {
      this.#blame(`${increments} increments are stored, and ${least} to ${most} were made`);
    }
  }

  /** Tips are entries, and everything appended to `main` is on one path. */
  compareBranches(): void {
    const entries = new Map(this.#stored.entries.map((entry) => [entry.id, entry]));
    for (const [address, { value }] of this.#stored.values) {
      if (!address.startsWith("pi.branch.tip/") || value === null || entries.has(value as string)) continue;
      this.#blame(`${address} names no entry`);
    }
    for (const tried of this.#of("branch")) {
      this.#judge(tried, this.#stored.values.has(`pi.branch.tip/b-${tried.token}`) ? 1 : 0);
    }
    const path = new Set<string>();
    let at = entries.get(this.#stored.values.get("pi.branch.tip/main")?.value as string);
    while (at !== undefined && !path.has(at.id)) {
      path.add(at.id);
      at = at.parentId === null ? undefined : entries.get(at.parentId);
    }
    for (const { id, type } of entries.values()) {
      if (type === "message" && !path.has(id)) this.#blame(`the message ${id} is not on the branch`);
    }
  }

  /** What a writer was told later comes later. */
  compareOrder(ofWriter: readonly Tried[]): void {
    let last = 0;
    for (const { token, outcome } of ofWriter) {
      const seq = outcome.is === "acknowledged" ? outcome.what.entry?.seq : undefined;
      if (seq === undefined) continue;
      if (seq <= last) this.#blame(`${token} was acknowledged with the seq ${seq} after ${last}`);
      last = seq;
    }
  }

  async compareStats(repo: PgSessionRepo): Promise<void> {
    const storage = await repo.openStorage({ id: this.#id }, context);
    const ledger = await storage.scanUsage({}, context);
    const stats = await storage.getStats(context);
    const messages = this.#stored.entries.filter(({ type }) => type === "message").length;
    const usage = ledger.reduce((sum, row) => addUsage(sum, row.usage), emptyUsage());
    const expected = { messageCount: messages, usage };
    if (!isSame(stats, expected)) {
      this.#blame(`the totals are ${JSON.stringify(stats)} and should be ${JSON.stringify(expected)}`);
    }
    await storage.close(context);
  }

  #judge({ token, kind, outcome }: Tried, found: number): void {
    const what = `${kind} ${token}`;
    if (found > 1) this.#blame(`${what} happened ${found} times`);
    if (outcome.is === "acknowledged" && found === 0)
      this.#blame(`${what} was acknowledged and is not there`);
    if (outcome.is === "refused" && found > 0)
      this.#blame(`${what} was refused (${outcome.code}) and is there`);
  }

  #of(...kinds: Kind[]): Tried[] {
    return this.#attempts.filter(({ kind }) => kinds.includes(kind));
  }

  #numbers(): { seqs: number[]; nextSeq: number } {
    const { entries, usage, elements, values, nextSeq } = this.#stored;
    const seqs = [...entries, ...usage, ...elements, ...values.values()].map(({ seq }) => seq);
    return { seqs: seqs.sort((left, right) => left - right), nextSeq };
  }

  #blame(violation: string): void {
    this.#books.blame(`session ${this.#id}: ${violation}`);
  }
}

function tokenOf({ type, payload }: StoredEntry): string {
  if (type === "message") return payload.message?.content ?? "";
  const { data } = payload;
  return typeof data === "object" ? data.token : (data ?? "");
}

function groupBy<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  return Map.groupBy(rows, key);
}

function isSame(left: object, right: object): boolean {
  const sorted = (data: object): unknown =>
    Object.entries(data)
      .map(([name, field]) => [name, typeof field === "object" ? sorted(field) : field])
      .sort(([one], [other]) => (String(one) < String(other) ? -1 : 1));
  return JSON.stringify(sorted(left)) === JSON.stringify(sorted(right));
}
