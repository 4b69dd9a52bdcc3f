import { list, value } from "../../src/contract/address.ts";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import type { Entry } from "../../src/contract/entry.ts";
import type { AgentMessage } from "../../src/contract/message.ts";
import type { Session } from "../../src/contract/session.ts";
import type { SessionStats } from "../../src/contract/usage.ts";

/** All that a session shows, apart from its ledger's rows. */
export interface State {
  metadata: Record<string, unknown>;
  entries: Entry[];
  values: { namespace: string; key: string; seq: number; value: unknown }[];
  lists: Record<string, unknown>;
  stats: SessionStats;
}

const PI_NAMESPACES = [
  "pi.session.name",
  "pi.entry.label",
  "pi.branch.tip",
  "pi.lane.config",
  "pi.lane.state",
  "pi.result",
  "pi.op.meta",
];

/** Addresses of the tests' own values and lists. */
export interface Places {
  namespaces: readonly string[];
  lists: readonly (readonly [namespace: string, key: string])[];
}

export async function stateOf(
  session: Session,
  places: Places = { namespaces: [], lists: [] },
): Promise<State> {
  const { id, createdAt, storageVersion, cwd, parentSessionId, legacyParentSessionPath } = session.metadata;
  const values: State["values"] = [];
  for (const namespace of [...PI_NAMESPACES, ...places.namespaces]) {
    for (const stored of await session.scanValues(value<unknown>(namespace), context)) {
      values.push({ namespace, key: stored.address.key, seq: stored.seq, value: stored.value });
    }
  }
  const lists: State["lists"] = {};
  for (const [namespace, key] of places.lists) {
    lists[`${namespace}/${key}`] = await session.readList(list<unknown>(namespace, key), undefined, context);
  }
  const entries = await session.findEntries({ order: "asc" }, context);
  const stats = await session.getStats(context);
  const metadata = { id, createdAt, storageVersion, cwd, parentSessionId, legacyParentSessionPath };
  // Fields that are undefined in memory are not there in the database.
  return JSON.parse(JSON.stringify({ metadata, entries, values, lists, stats })) as State;
}

/** pi gives new ids to the entries of a version 3 file; here they get those of the same entries in `kept` again. */
export function withIdsOf(kept: State, minted: State): State {
  const keptIds = new Map(minted.entries.map(({ id, seq }) => [id, idWithSeq(kept, seq)]));
  const keptId = (id: string | null) => (id === null ? null : (keptIds.get(id) ?? id));
  const message = (original: AgentMessage): AgentMessage =>
    original.role === "branchSummary" ? { ...original, fromId: keptId(original.fromId) } : original;
  const entry = (original: Entry): Entry => {
    const common = { id: keptId(original.id) as string, parentId: keptId(original.parentId) };
    switch (original.type) {
      case "branch_summary":
        return { ...original, ...common, fromId: keptId(original.fromId) };
      case "compaction":
        return { ...original, ...common, retainedTail: original.retainedTail.map(message) };
      default:
        return { ...original, ...common };
    }
  };
  const values = minted.values.map((stored) => ({
    ...stored,
    key: stored.namespace === "pi.entry.label" ? (keptId(stored.key) as string) : stored.key,
    value: stored.namespace === "pi.branch.tip" ? keptId(stored.value as string | null) : stored.value,
  }));
  return { ...minted, entries: minted.entries.map(entry), values: sorted(values) };
}

/** By address, as new ids sort in another order than the kept ones. */
export function sorted(values: State["values"]): State["values"] {
  return values.toSorted((left, right) =>
    `${left.namespace}\0${left.key}` < `${right.namespace}\0${right.key}` ? -1 : 1,
  );
}

function idWithSeq(state: State, seq: number): string {
  const entry = state.entries.find((candidate) => candidate.seq === seq);
  if (entry === undefined) throw new Error(`no entry has seq ${seq}`);
  return entry.id;
}
