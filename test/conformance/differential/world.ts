/** Two repositories that live through the same operations, and must be told apart by none. */
import {
  type Branch,
  BACKGROUND_CONTEXT as context,
  deleteList,
  deleteValue,
  idleLaneState,
  laneConfig,
  laneState,
  list,
  type Session,
  type SessionMetadata,
  setValue,
  value,
  type Write,
} from "../../../src/index.ts";
import { Observer } from "./observation.ts";
import type {
  AddressRef,
  IdRef,
  ListQuery,
  OnSession,
  Operation,
  PathQuery,
  Read,
  WritePlan,
} from "./operation.ts";
import type { Pair, Side, SideName } from "./sides.ts";

/** What is known of a session, so that operations can name its ids. */
interface Known {
  readonly metadata: Pair<SessionMetadata>;
  readonly entries: Pair<string>[];
  readonly usageRows: Pair<string>[];
  /** What commits said about their time, by `seq`. */
  readonly committedAt: Pair<Map<number, number>>;
}

interface Handle {
  readonly known: Known;
  readonly session: Pair<Session>;
  readonly branches: Map<string, Pair<Branch>>;
}

type Outcome<T> = { resolved: T } | { rejected: unknown };
type Address = { namespace: string; key: string };

/** How often operations of each kind were accepted and refused. */
export type Tally = Map<string, { accepted: number; refused: number }>;

export class Disagreement extends Error {}

export class World {
  readonly #sides: Pair<Side>;
  readonly #tally: Tally;
  readonly #observers: Pair<Observer> = pairOf(() => new Observer());
  readonly #sessions: Known[] = [];
  readonly #open: Handle[] = [];
  readonly #closed: Handle[] = [];
  readonly #namespaces = new Set(["pi.branch.tip", "pi.session.name", "pi.entry.label"]);
  readonly #lists = new Map<string, Pair<Address>>();
  #invented = 0;
  #doing = "";

  constructor(sides: Pair<Side>, tally: Tally = new Map()) {
    this.#sides = sides;
    this.#tally = tally;
  }

  /** Does one operation on both sides. Rejects with a {@link Disagreement} when they answer differently. */
  async perform(operation: Operation): Promise<void> {
    this.#doing = operation.do === "read" ? `read ${operation.read.read}` : operation.do;
    switch (operation.do) {
      case "create":
        return this.#create(operation);
      case "open":
        return this.#reopen(this.#sessions[backwards(this.#sessions, operation.session)]);
      case "delete":
        return this.#delete(operation);
      case "fork":
        return this.#fork(operation);
      case "list":
        await this.#both(
          (side) => this.#sides[side].repo.list(undefined, context),
          (catalog, observer) => observer.catalog(catalog),
        );
        return;
    }
    const handle = this.#handle(operation);
    if (handle === undefined) return;
    switch (operation.do) {
      case "commit":
        return this.#commit(handle, operation.writes, operation.through);
      case "commitTogether":
        return this.#commitTogether(handle, operation.commits);
      case "write":
        return this.#writeOne(handle, operation.write);
      case "append":
        return this.#append(handle, operation);
      case "createBranch":
        return this.#createBranch(handle, operation.branch, operation.at);
      case "makeLane":
        return this.#makeLane(handle, operation);
      case "name":
        await this.#both((side) => handle.session[side].setName(operation.name, context));
        return;
      case "label": {
        const id = this.#id(handle.known, operation.id);
        await this.#both((side) => handle.session[side].setLabel(id[side], operation.label, context));
        return;
      }
      case "close":
        return this.#close(handle);
      case "read":
        return this.#read(handle, operation.read);
    }
  }

  /** Opens every session that is closed. */
  async openEverything(): Promise<void> {
    this.#doing = "open";
    for (const known of this.#sessions) {
      if (!this.#open.some((handle) => handle.known === known)) await this.#reopen(known);
    }
  }

  /** Reads everything of every open session, and goes on writing to each. */
  async compareEverything(): Promise<void> {
    await this.perform({ do: "list" });
    for (const handle of this.#open) await this.#compareSession(handle);
  }

  async end(): Promise<void> {
    await Promise.all([this.#sides.subject.close(), this.#sides.reference.close()]);
  }

  async #compareSession(handle: Handle): Promise<void> {
    this.#doing = "read everything";
    const path = (entry: number): Read => ({
      read: "path",
      through: "structure",
      query: { start: { entry }, order: "oldestFirst" },
    });
    const reads: Read[] = [
      { read: "find", one: false, query: { order: "asc" } },
      { read: "usage", query: {} },
      { read: "stats" },
      ...[0, 1, Math.trunc(handle.known.entries.length / 2)].map(path),
      ...[...this.#namespaces].map((namespace): Read => ({ read: "values", at: { namespace, key: "" } })),
    ];
    await Promise.all([
      ...reads.map((read) => this.#read(handle, read)),
      ...[...this.#lists.values()].map((at) => this.#readList(handle, at, undefined)),
    ]);
    // A commit that was refused, or a fork, may have left the wrong next `seq`.
    await this.#commit(handle, [], "mutate");
    await this.#commit(handle, [LAST_WRITE], "mutate");
  }

  async #create({ id, parent }: Extract<Operation, { do: "create" }>): Promise<void> {
    const from = parent === undefined ? undefined : this.#sessions[backwards(this.#sessions, parent)];
    const opened = await this.#both((side) =>
      this.#sides[side].repo.create(
        {
          ...(id === undefined ? {} : { id }),
          ...(from === undefined ? {} : { parentSessionId: from.metadata[side].id }),
        },
        context,
      ),
    );
    this.#opened(opened, { entries: [], usageRows: [], committedAt: pairOf(() => new Map()) });
  }

  async #reopen(known: Known | undefined): Promise<void> {
    if (known === undefined) return;
    const session = await this.#both((side) => this.#sides[side].repo.open(known.metadata[side], context));
    if (session === undefined) return;
    this.#compareMetadata(session);
    this.#open.push({ known, session, branches: new Map() });
  }

  async #delete({ session, closeFirst }: Extract<Operation, { do: "delete" }>): Promise<void> {
    const known = this.#sessions[backwards(this.#sessions, session)];
    if (known === undefined) return;
    const handle = this.#open.find((open) => open.known === known);
    if (closeFirst && handle !== undefined) await this.#close(handle);
    const deleted = await this.#both((side) => this.#sides[side].repo.delete(known.metadata[side], context));
    if (deleted !== undefined) this.#sessions.splice(this.#sessions.indexOf(known), 1);
  }

  async #fork(operation: Extract<Operation, { do: "fork" }>): Promise<void> {
    const source = this.#sessions[backwards(this.#sessions, operation.session)];
    if (source === undefined) return;
    const { id, branch, entryId, position } = operation;
    this.#doing = branch === undefined ? "fork tree" : "fork branch";
    const entry = entryId === undefined ? undefined : this.#id(source, entryId);
    const opened = await this.#both((side) =>
      this.#sides[side].repo.fork(
        source.metadata[side],
        {
          ...(id === undefined ? {} : { id }),
          ...(branch === undefined
            ? { scope: "tree" as const }
            : {
                scope: "branch" as const,
                branch,
                ...(entry === undefined ? {} : { entryId: entry[side] }),
                ...(position === undefined ? {} : { position }),
              }),
        },
        context,
      ),
    );
    this.#opened(opened, {
      entries: [...source.entries],
      usageRows: [...source.usageRows],
      committedAt: {
        subject: new Map(source.committedAt.subject),
        reference: new Map(source.committedAt.reference),
      },
    });
  }

  #opened(session: Pair<Session> | undefined, known: Omit<Known, "metadata">): void {
    if (session === undefined) return;
    const { subject, reference } = session;
    if (subject.metadata.id !== reference.metadata.id) {
      this.#learn({ subject: subject.metadata.id, reference: reference.metadata.id });
    }
    this.#compareMetadata(session);
    const metadata = { subject: subject.metadata, reference: reference.metadata };
    const opened = { ...known, metadata };
    this.#sessions.push(opened);
    this.#open.push({ known: opened, session, branches: new Map() });
  }

  #compareMetadata({ subject, reference }: Pair<Session>): void {
    this.#compare({
      subject: this.#observers.subject.metadata(subject.metadata),
      reference: this.#observers.reference.metadata(reference.metadata),
    });
  }

  async #close(handle: Handle): Promise<void> {
    await this.#both((side) => handle.session[side].close(context));
    const index = this.#open.indexOf(handle);
    if (index === -1) return;
    this.#open.splice(index, 1);
    this.#closed.push(handle);
  }

  async #commit(
    handle: Handle,
    plans: readonly WritePlan[],
    through: "mutate" | "mutation" | "storage",
  ): Promise<void> {
    const writes = this.#writes(handle.known, plans);
    const commit = { mutate: commitByMutate, mutation: commitByMutation, storage: this.#commitByStorage };
    const how = this.#isOpen(handle) ? through : "mutate";
    const committed = await this.#both(
      (side) => commit[how].call(this, handle.session[side], writes[side], side),
      (result, observer) => observer.commit(result),
    );
    if (committed !== undefined) this.#committed(handle.known, writes, committed);
  }

  #commitByStorage = async (session: Session, writes: Write[], side: SideName) =>
    (await this.#sides[side].storageOf(session)).commit(writes, context);

  /** Commits that are called without waiting for each other happen in the order of their calls. */
  async #commitTogether(handle: Handle, commits: readonly (readonly WritePlan[])[]): Promise<void> {
    const all = commits.map((plans) => this.#writes(handle.known, plans));
    const outcomes = await this.#both(
      (side) =>
        Promise.all(all.map((writes) => outcomeOf(() => commitByMutate(handle.session[side], writes[side])))),
      (results, observer) =>
        results.map((one) => ("resolved" in one ? observer.commit(one.resolved) : "refused")).join("\n"),
    );
    all.forEach((writes, index) => {
      const subject = outcomes?.subject[index];
      const reference = outcomes?.reference[index];
      if (subject === undefined || reference === undefined) return;
      if (!("resolved" in subject) || !("resolved" in reference)) return;
      this.#committed(handle.known, writes, { subject: subject.resolved, reference: reference.resolved });
    });
  }

  #committed(known: Known, writes: Pair<Write[]>, result: Pair<{ seqs: number[]; timestamp: number }>): void {
    writes.reference.forEach((reference, index) => {
      const subject = writes.subject[index];
      if (subject?.kind === "entry" && reference.kind === "entry") {
        known.entries.push({ subject: subject.entry.id, reference: reference.entry.id });
      }
      if (subject?.kind === "usage" && reference.kind === "usage") {
        known.usageRows.push({ subject: subject.row.id, reference: reference.row.id });
      }
      for (const side of SIDES) {
        known.committedAt[side].set(result[side].seqs[index] ?? Number.NaN, result[side].timestamp);
      }
    });
  }

  async #writeOne(handle: Handle, plan: WritePlan): Promise<void> {
    const writes = this.#writes(handle.known, [plan]);
    await this.#both((side) => {
      const session = handle.session[side];
      const [write] = writes[side];
      if (write?.kind === "value") {
        const address = value<unknown>(write.namespace, write.key);
        return write.op === "set"
          ? session.setValue(address, write.value, context)
          : session.deleteValue(address, context);
      }
      if (write?.kind !== "list") throw new Error("only values and lists are written one by one");
      const address = list<unknown>(write.namespace, write.key);
      return write.op === "append"
        ? session.appendList(address, write.value, context)
        : session.deleteList(address, context);
    });
  }

  async #append(
    handle: Handle,
    { branch: name, remembered, node }: Extract<Operation, { do: "append" }>,
  ): Promise<void> {
    const branch = (remembered && handle.branches.get(name)) || (await this.#branch(handle, name));
    if (branch === undefined) return;
    const id = await this.#both((side) =>
      "message" in node
        ? branch[side].appendMessage(node.message, context)
        : branch[side].appendCustomEntry(node.customType, node.data, context),
    );
    if (id === undefined) return;
    this.#learn(id);
    handle.known.entries.push(id);
  }

  /** The branch, if both sides have it. */
  async #branch(handle: Handle, name: string): Promise<Pair<Branch> | undefined> {
    const found = await this.#both(
      (side) => handle.session[side].branch(name, context),
      (branch) => branch?.name ?? "no branch",
    );
    if (found?.subject === undefined || found.reference === undefined) return undefined;
    const branch = { subject: found.subject, reference: found.reference };
    handle.branches.set(name, branch);
    return branch;
  }

  async #createBranch(handle: Handle, name: string, at: IdRef | null): Promise<void> {
    const id = at === null ? undefined : this.#id(handle.known, at);
    const branch = await this.#both(
      (side) => handle.session[side].createBranch(name, id?.[side] ?? null, context),
      (created) => created.name,
    );
    if (branch !== undefined) handle.branches.set(name, branch);
  }

  /** What a harness writes when it makes a lane, so that forks of a branch have something to copy. */
  async #makeLane(
    handle: Handle,
    { branch, tip, keepTip }: Extract<Operation, { do: "makeLane" }>,
  ): Promise<void> {
    if (branch === "") return;
    const plans: WritePlan[] = [
      { write: "set", at: laneConfig(branch), value: { model: { provider: "p", modelId: "m" } } },
      { write: "set", at: laneState(branch), value: { ...idleLaneState(), lastOperationId: "o" } },
    ];
    const at = { namespace: "pi.branch.tip", key: branch };
    if (!keepTip) {
      plans.unshift(
        tip === null ? { write: "set", at, value: null } : { write: "set", at, value: tip, isRef: true },
      );
    }
    await this.#commit(handle, plans, "mutate");
  }

  async #read(handle: Handle, read: Read): Promise<void> {
    const { known, session } = handle;
    const times = known.committedAt;
    switch (read.read) {
      case "entries": {
        const ids = read.ids.map((id) => this.#id(known, id));
        await this.#both(
          (side) =>
            session[side].getEntries(
              ids.map((id) => id[side]),
              context,
            ),
          (entries, observer, side) => observer.entryMap(entries, times[side]),
        );
        return;
      }
      case "entry": {
        const id = this.#id(known, read.id);
        await this.#both(
          (side) => session[side].getEntry(id[side], context),
          (entry, observer, side) => observer.entry(entry, times[side]),
        );
        return;
      }
      case "value": {
        const at = this.#address(known, read.at);
        await this.#both(
          (side) => session[side].getValue(value(at[side].namespace, at[side].key), context),
          (stored, observer) => observer.value(stored),
        );
        return;
      }
      case "values": {
        const at = this.#address(known, read.at);
        await this.#both(
          (side) => session[side].scanValues(value(at[side].namespace, at[side].key), context),
          (stored, observer) => observer.values(stored),
        );
        return;
      }
      case "list":
        return this.#readList(handle, this.#address(known, read.at), read.options);
      case "path":
        return this.#readPath(handle, read);
      case "branch":
        return this.#readBranch(handle, read);
      case "tip": {
        const branch = handle.branches.get(read.branch);
        if (branch === undefined) return;
        await this.#both(
          (side) => branch[side].getTipId(context),
          (tip, observer) => observer.json(tip) ?? "undefined",
        );
        return;
      }
      case "find": {
        await this.#both(
          async (side) =>
            read.one
              ? [await session[side].findEntry(read.query, context)].filter((entry) => entry !== undefined)
              : session[side].findEntries(read.query, context),
          (entries, observer, side) => observer.entries(entries, times[side]),
        );
        return;
      }
      case "range":
        await this.#both(
          async (side) => (await this.#storageOf(handle, side)).scanEntries(read.query, context),
          (entries, observer, side) => observer.entries(entries, times[side]),
        );
        return;
      case "usage":
        await this.#both(
          async (side) => (await this.#storageOf(handle, side)).scanUsage(read.query, context),
          (rows, observer) => observer.usage(rows),
        );
        return;
      case "stats":
        await this.#both(
          (side) => session[side].getStats(context),
          (stats, observer) => observer.stats(stats),
        );
        return;
      case "name":
        await this.#both(
          (side) => session[side].getName(context),
          (name, observer) => observer.json(name) ?? "undefined",
        );
        return;
      case "label": {
        const id = this.#id(known, read.id);
        await this.#both(
          (side) => session[side].getLabel(id[side], context),
          (label, observer) => observer.json(label) ?? "undefined",
        );
        return;
      }
    }
  }

  async #readList({ session }: Handle, at: Pair<Address>, options: ListQuery | undefined): Promise<void> {
    await this.#both(
      (side) => session[side].readList(list(at[side].namespace, at[side].key), options, context),
      (elements, observer) => observer.list(elements),
    );
  }

  async #readPath(handle: Handle, { through, query }: Extract<Read, { read: "path" }>): Promise<void> {
    const { known, session } = handle;
    const start = this.#id(known, query.start);
    const rest = this.#pathQuery(known, query);
    await this.#both(
      async (side) => {
        const scan = { ...rest[side], start: start[side] };
        switch (through) {
          case "session":
            return session[side].scanBranch(scan, context);
          case "mutation":
            return session[side].mutate((mutator) => mutator.scanBranch(scan, context), context);
          case "storage":
            return (await this.#storageOf(handle, side)).scanBranch(scan, context);
          case "structure":
            return (await this.#storageOf(handle, side)).scanBranchStructure(scan, context);
        }
      },
      (entries, observer, side) => observer.entries(entries, known.committedAt[side]),
    );
  }

  async #readBranch(
    handle: Handle,
    { branch: name, one, query }: Extract<Read, { read: "branch" }>,
  ): Promise<void> {
    const branch = await this.#branch(handle, name);
    if (branch === undefined) return;
    const start = query?.start === undefined ? undefined : this.#id(handle.known, query.start);
    const rest = this.#pathQuery(handle.known, query ?? {});
    await this.#both(
      async (side) => {
        const scan = { ...rest[side], ...(start === undefined ? {} : { start: start[side] }) };
        if (!one) return branch[side].findEntries(query === undefined ? undefined : scan, context);
        return [await branch[side].findEntry(query === undefined ? undefined : scan, context)].filter(
          (entry) => entry !== undefined,
        );
      },
      (entries, observer, side) => observer.entries(entries, handle.known.committedAt[side]),
    );
  }

  #pathQuery(known: Known, { start: _, stopAtId, ...query }: Partial<PathQuery>) {
    const stop = stopAtId === undefined ? undefined : this.#id(known, stopAtId);
    return pairOf((side) => ({ ...query, ...(stop === undefined ? {} : { stopAtId: stop[side] }) }));
  }

  /** Its storage outlives a session object, so for a closed one there is nothing to compare. */
  async #storageOf(handle: Handle, side: SideName) {
    if (!this.#isOpen(handle)) await handle.session[side].getStats(context);
    return this.#sides[side].storageOf(handle.session[side]);
  }

  #isOpen(handle: Handle): boolean {
    return this.#open.includes(handle);
  }

  #handle({ on, closed }: OnSession): Handle | undefined {
    const handles = closed === true || this.#open.length === 0 ? this.#closed : this.#open;
    return handles[backwards(handles, on)];
  }

  /** What a reference means; it means nothing that exists if the session has no such id. */
  #id(known: Known, ref: IdRef, inCommit: readonly Pair<string>[] = [], position = 0): Pair<string> {
    if ("id" in ref) return { subject: ref.id, reference: ref.id };
    const nothing = { subject: "nothing", reference: "nothing" };
    if ("entry" in ref) return known.entries[backwards(known.entries, ref.entry)] ?? nothing;
    if ("usage" in ref) return known.usageRows[backwards(known.usageRows, ref.usage)] ?? nothing;
    // -1 is the entry just before, be it in this commit or the session's last one.
    if (ref.inCommit === -1) return inCommit[position - 1] ?? known.entries.at(-1) ?? nothing;
    return inCommit[ref.inCommit % inCommit.length] ?? nothing;
  }

  #address(known: Known, { namespace, key }: AddressRef): Pair<Address> {
    const keys = typeof key === "string" ? { subject: key, reference: key } : this.#id(known, key);
    return pairOf((side) => ({ namespace, key: keys[side] }));
  }

  #writes(known: Known, plans: readonly WritePlan[]): Pair<Write[]> {
    const ids = plans.filter((plan) => plan.write === "entry").map((plan) => this.#id(known, plan.id, [], 0));
    let position = 0;
    const writes = plans.map((plan) => {
      const write = this.#write(known, plan, ids, position);
      if (plan.write === "entry") position++;
      return write;
    });
    return pairOf((side) => writes.map((write) => write[side]));
  }

  #write(known: Known, plan: WritePlan, ids: readonly Pair<string>[], position: number): Pair<Write> {
    const resolve = (ref: IdRef) => this.#id(known, ref, ids, position);
    switch (plan.write) {
      case "entry": {
        const id = ids[position] ?? resolve(plan.id);
        // The first entry of a session is a root, as most are in life.
        const isFirst = known.entries.length === 0 && position === 0;
        const parent = plan.parent === null || isFirst ? undefined : resolve(plan.parent);
        const { body, customType } = plan;
        const fromId =
          body.type === "branch_summary" && body.fromId !== null ? resolve(body.fromId) : undefined;
        return pairOf((side) => ({
          kind: "entry" as const,
          entry: {
            id: id[side],
            parentId: parent?.[side] ?? null,
            ...(customType === undefined ? {} : { customType }),
            ...body,
            ...(body.type === "branch_summary" ? { fromId: fromId?.[side] ?? null } : {}),
          } as Extract<Write, { kind: "entry" }>["entry"],
        }));
      }
      case "usage": {
        const { write: _, id: idRef, entryId, ...row } = plan;
        const id = resolve(idRef);
        const entry = entryId === undefined ? undefined : resolve(entryId);
        return pairOf((side) => ({
          kind: "usage" as const,
          row: { ...row, id: id[side], ...(entry === undefined ? {} : { entryId: entry[side] }) },
        }));
      }
      default:
        return this.#stateWrite(known, plan, resolve);
    }
  }

  #stateWrite(
    known: Known,
    plan: Exclude<WritePlan, { write: "entry" | "usage" }>,
    resolve: (ref: IdRef) => Pair<string>,
  ): Pair<Write> {
    const at = this.#address(known, plan.at);
    const isList = plan.write === "append" || plan.write === "deleteList";
    if (isList) this.#lists.set(JSON.stringify(at), at);
    else this.#namespaces.add(plan.at.namespace);
    const values = "value" in plan && "isRef" in plan ? resolve(plan.value as IdRef) : undefined;
    return pairOf((side): Write => {
      const address = at[side];
      switch (plan.write) {
        case "set":
          return setValue(value<unknown>(address.namespace, address.key), values?.[side] ?? plan.value);
        case "delete":
          return deleteValue(value(address.namespace, address.key));
        case "append":
          return { kind: "list", op: "append", ...address, value: plan.value };
        case "deleteList":
          return deleteList(list(address.namespace, address.key));
      }
    });
  }

  #learn(id: Pair<string>): void {
    this.#invented++;
    for (const side of SIDES) this.#observers[side].learn(id[side], this.#invented);
  }

  /** Resolves to what both sides answered, or to `undefined` if both rejected. */
  async #both<T>(
    act: (side: SideName) => Promise<T>,
    observe: (result: T, observer: Observer, side: SideName) => string = () => "done",
  ): Promise<Pair<T> | undefined> {
    const subject = await outcomeOf(() => act("subject"));
    const reference = await outcomeOf(() => act("reference"));
    const text = (outcome: Outcome<T>, side: SideName) =>
      "resolved" in outcome ? observe(outcome.resolved, this.#observers[side], side) : REFUSED;
    this.#compare(
      { subject: text(subject, "subject"), reference: text(reference, "reference") },
      { subject, reference },
    );
    const counts = this.#tally.get(this.#doing) ?? { accepted: 0, refused: 0 };
    this.#tally.set(this.#doing, counts);
    if ("resolved" in subject && "resolved" in reference) {
      counts.accepted++;
      return { subject: subject.resolved, reference: reference.resolved };
    }
    if ("rejected" in subject && !this.#sides.subject.refuses(subject.rejected)) {
      throw new Disagreement(`${this.#doing} fails with an error that nobody raised on purpose`, {
        cause: subject.rejected,
      });
    }
    counts.refused++;
    return undefined;
  }

  #compare(texts: Pair<string>, outcomes?: Pair<Outcome<unknown>>): void {
    if (texts.subject === texts.reference) return;
    const [subject, reference] = SIDES.map((side) => {
      const outcome = outcomes?.[side];
      return outcome !== undefined && "rejected" in outcome ? `refused: ${outcome.rejected}` : texts[side];
    });
    throw new Disagreement(`${this.#doing}:\n--- subject\n${subject}\n--- reference\n${reference}`);
  }
}

const SIDES = ["subject", "reference"] as const;
const REFUSED = "refused";
const LAST_WRITE: WritePlan = { write: "set", at: { namespace: "last", key: "" }, value: true };

function pairOf<T>(make: (side: SideName) => T): Pair<T> {
  return { subject: make("subject"), reference: make("reference") };
}

/** The index of the element that is `back` before the last one, round and round. */
function backwards(all: readonly unknown[], back: number): number {
  return all.length === 0 ? 0 : all.length - 1 - (back % all.length);
}

async function outcomeOf<T>(work: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { resolved: await work() };
  } catch (rejected) {
    if (rejected instanceof Disagreement) throw rejected;
    return { rejected };
  }
}

function commitByMutate(session: Session, writes: Write[]) {
  return session.mutate((mutator) => mutator.commit(writes, context), context);
}

/** Also proves that a mutation commits once only, and nothing after its end. */
async function commitByMutation(session: Session, writes: Write[]) {
  const mutation = await session.beginMutation(context);
  try {
    const result = await mutation.commit(writes, context);
    await mustReject(() => mutation.commit(writes, context));
    return result;
  } finally {
    await mutation.end(context);
    await mustReject(async () => mutation.getStats(context));
  }
}

async function mustReject(work: () => Promise<unknown>): Promise<void> {
  if ("resolved" in (await outcomeOf(work))) throw new Disagreement("a mutation did too much");
}
