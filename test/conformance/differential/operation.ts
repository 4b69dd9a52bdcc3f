/**
 * What may be done to a repository, as plain data: fast-check prints it, shrinks it and repeats it. Ids that one
 * side invents are unknown beforehand, so an operation names what it means by position.
 */
import fc from "fast-check";
import type { AgentMessage, EntryType, JsonValue, Usage } from "../../../src/index.ts";
import {
  identifier,
  json,
  longIdentifier,
  message,
  nonEmptyIdentifier,
  payloadText,
  usage,
} from "./alphabet.ts";

/** An id: of the session's `back`-th last entry or usage row, of an entry of this commit, or literally. */
export type IdRef = { entry: number } | { usage: number } | { inCommit: number } | { id: string };

export interface AddressRef {
  namespace: string;
  key: string | IdRef;
}

export type WritePlan =
  | { write: "entry"; id: IdRef; parent: IdRef | null; body: EntryBody; customType?: string }
  | { write: "usage"; id: IdRef; entryId?: IdRef; usage: Usage; adjustment: boolean; details?: JsonValue }
  | { write: "set"; at: AddressRef; value: JsonValue | IdRef; isRef?: true }
  | { write: "delete"; at: AddressRef }
  | { write: "append"; at: AddressRef; value: JsonValue }
  | { write: "deleteList"; at: AddressRef };

export type EntryBody =
  | { type: "message"; message: AgentMessage; terminate?: true }
  | {
      type: "compaction";
      summary: string;
      retainedTail: AgentMessage[];
      tokensBefore: number;
      details?: JsonValue;
      usage?: Usage;
      fromHook: boolean;
    }
  | {
      type: "branch_summary";
      fromId: IdRef | null;
      summary: string;
      details?: JsonValue;
      usage?: Usage;
      fromHook: boolean;
    }
  | { type: "custom"; customType: string; data?: JsonValue };

export interface PathQuery {
  start: IdRef;
  stopAtType?: EntryType;
  stopAtId?: IdRef;
  type?: EntryType;
  customType?: string;
  order?: "newestFirst" | "oldestFirst";
  limit?: number;
  cursor?: { seq: number };
}

export interface RangeQuery {
  type?: EntryType;
  customType?: string;
  fromSeq?: number;
  toSeq?: number;
  order?: "asc" | "desc";
  limit?: number;
}

export interface FindQuery {
  type?: EntryType;
  customType?: string;
  order?: "asc" | "desc";
  limit?: number;
  cursor?: { seq: number };
}

export interface ListQuery {
  cursor?: { seq: number };
  order?: "asc" | "desc";
  limit?: number;
}

export type Read =
  | { read: "entries"; ids: IdRef[] }
  | { read: "entry"; id: IdRef }
  | { read: "value"; at: AddressRef }
  | { read: "values"; at: AddressRef }
  | { read: "list"; at: AddressRef; options?: ListQuery }
  | { read: "path"; through: "session" | "mutation" | "storage" | "structure"; query: PathQuery }
  | { read: "branch"; branch: string; one: boolean; query?: Partial<PathQuery> }
  | { read: "tip"; branch: string }
  | { read: "find"; one: boolean; query?: FindQuery }
  | { read: "range"; query: RangeQuery }
  | { read: "usage"; query: Pick<RangeQuery, "fromSeq" | "toSeq" | "order" | "limit"> }
  | { read: "stats" }
  | { read: "name" }
  | { read: "label"; id: IdRef };

/** `on` counts back from the session that was opened last; `closed` takes one that was closed. */
export interface OnSession {
  on: number;
  closed?: true;
}

export type Operation =
  | (OnSession & { do: "commit"; through: "mutate" | "mutation" | "storage"; writes: WritePlan[] })
  | (OnSession & { do: "commitTogether"; commits: WritePlan[][] })
  | (OnSession & { do: "write"; write: WritePlan })
  | (OnSession & {
      do: "append";
      branch: string;
      remembered: boolean;
      node: { message: AgentMessage } | { customType: string; data?: JsonValue };
    })
  | (OnSession & { do: "createBranch"; branch: string; at: IdRef | null })
  | (OnSession & { do: "makeLane"; branch: string; tip: IdRef | null; keepTip: boolean })
  | (OnSession & { do: "name"; name?: string })
  | (OnSession & { do: "label"; id: IdRef; label?: string })
  | (OnSession & { do: "read"; read: Read })
  | (OnSession & { do: "close" })
  | { do: "list" }
  | { do: "create"; id?: string; parent?: number }
  | { do: "open"; session: number }
  | { do: "delete"; session: number; closeFirst: boolean }
  | {
      do: "fork";
      session: number;
      id?: string;
      branch?: string;
      entryId?: IdRef;
      position?: "before" | "at";
    };

/** Each optional field is mostly absent: with all of them at once a query finds nothing. */
function query<TRequired extends object, TOptional extends object>(
  required: { [K in keyof TRequired]: fc.Arbitrary<TRequired[K]> },
  optional: { [K in keyof TOptional]: fc.Arbitrary<TOptional[K]> },
): fc.Arbitrary<TRequired & Partial<TOptional>> {
  const present = fc.record(
    Object.fromEntries(
      Object.keys(optional).map((name) => [
        name,
        fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
      ]),
    ),
  );
  return fc.tuple(fc.record(required), fc.record(optional), present).map(([always, all, isPresent]) => ({
    ...always,
    ...Object.fromEntries(Object.entries(all).filter(([name]) => isPresent[name])),
  })) as unknown as fc.Arbitrary<TRequired & Partial<TOptional>>;
}

const BRANCHES = ["main", "%", "m_in"];
const branch = fc.oneof(
  { weight: 20, arbitrary: fc.constant("main") },
  { weight: 15, arbitrary: fc.constantFrom(...BRANCHES) },
  { weight: 2, arbitrary: nonEmptyIdentifier },
  { weight: 1, arbitrary: fc.constant("") },
);
const CUSTOM_TYPES = ["note", "not_", "%", "\u{1f600}", ""];
const customType = fc.constantFrom(...CUSTOM_TYPES);
const type = fc.constantFrom<EntryType>("message", "compaction", "branch_summary", "custom");
const back = fc.oneof({ weight: 2, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.nat(30) });

const known: fc.Arbitrary<IdRef> = fc.record({ entry: back });
const literal: fc.Arbitrary<IdRef> = fc.record({ id: identifier });
const id: fc.Arbitrary<IdRef> = fc.oneof(
  { weight: 12, arbitrary: known },
  { weight: 1, arbitrary: literal },
  { weight: 1, arbitrary: fc.record({ usage: back }) },
);
/** Paths are longest from where the session was written last. */
const start: fc.Arbitrary<IdRef> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ entry: fc.constant(0) }) },
  { weight: 2, arbitrary: id },
);
const newId: fc.Arbitrary<IdRef> = fc.oneof(
  { weight: 90, arbitrary: fc.record({ id: longIdentifier }) },
  { weight: 2, arbitrary: literal },
  { weight: 2, arbitrary: known },
  { weight: 2, arbitrary: fc.record({ usage: back }) },
  { weight: 1, arbitrary: fc.record({ inCommit: fc.nat(5) }) },
);
/** Mostly what exists: the entry before this one in the commit, or one of the session. */
const parent: fc.Arbitrary<IdRef | null> = fc.oneof(
  { weight: 40, arbitrary: fc.constant({ inCommit: -1 }) },
  { weight: 12, arbitrary: known },
  { weight: 4, arbitrary: fc.constant(null) },
  { weight: 1, arbitrary: fc.record({ inCommit: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.oneof(literal, fc.record({ usage: back })) },
);

const APPLICATION_NAMESPACES = ["app", "app%", "a_p", "äpp", "\u{1f600}", "pix", "\uffff"];
const OWN_NAMESPACES = ["pi.session.name", "pi.entry.label", "pi.lane.config", "pi.lane.state", "pi.result"];
const TRANSIENT_NAMESPACES = ["pi.op.meta", "pi.op.%", "pi.pending.entry"];
/** A session with state in one of these cannot be forked. */
const UNKNOWN_NAMESPACES = ["pi.new", "pi", "pi.op", "pi.pending", "pi.result.x"];
const namespace = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom(...APPLICATION_NAMESPACES) },
  { weight: 6, arbitrary: fc.constantFrom(...OWN_NAMESPACES) },
  { weight: 3, arbitrary: fc.constantFrom(...TRANSIENT_NAMESPACES) },
  { weight: 1, arbitrary: fc.constantFrom(...UNKNOWN_NAMESPACES) },
);
const addressKey: fc.Arbitrary<string | IdRef> = fc.oneof(
  { weight: 4, arbitrary: identifier },
  { weight: 4, arbitrary: fc.constantFrom("", "k", "k%", "k_", ...BRANCHES) },
  { weight: 1, arbitrary: known },
);
const address: fc.Arbitrary<AddressRef> = fc.record({ namespace, key: addressKey });
/** Branch tips are values too; most are set to something that may be an entry. */
const tipAddress: fc.Arbitrary<AddressRef> = fc.record({
  namespace: fc.constant("pi.branch.tip"),
  key: branch,
});

const entryBody: fc.Arbitrary<EntryBody> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record(
      { type: fc.constant("message" as const), message, terminate: fc.constant(true as const) },
      { requiredKeys: ["type", "message"] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      {
        type: fc.constant("compaction" as const),
        summary: payloadText,
        retainedTail: fc.array(message, { maxLength: 2 }),
        tokensBefore: fc.nat(),
        details: json,
        usage,
        fromHook: fc.boolean(),
      },
      { requiredKeys: ["type", "summary", "retainedTail", "tokensBefore", "fromHook"] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record(
      {
        type: fc.constant("branch_summary" as const),
        fromId: fc.oneof(known, fc.constant(null)),
        summary: payloadText,
        details: json,
        usage,
        fromHook: fc.boolean(),
      },
      { requiredKeys: ["type", "fromId", "summary", "fromHook"] },
    ),
  },
  {
    weight: 3,
    arbitrary: fc.record(
      { type: fc.constant("custom" as const), customType, data: json },
      { requiredKeys: ["type", "customType"] },
    ),
  },
);

const entryWrite: fc.Arbitrary<WritePlan> = fc.record(
  { write: fc.constant("entry" as const), id: newId, parent, body: entryBody, customType },
  { requiredKeys: ["write", "id", "parent", "body"] },
);
const usageWrite: fc.Arbitrary<WritePlan> = fc.record(
  {
    write: fc.constant("usage" as const),
    id: newId,
    entryId: fc.oneof(id, fc.record({ inCommit: fc.nat(5) })),
    usage,
    adjustment: fc.boolean(),
    details: json,
  },
  { requiredKeys: ["write", "id", "usage", "adjustment"] },
);
const setWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("set" as const),
  at: address,
  value: json,
});
const deleteWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("delete" as const),
  at: fc.oneof({ weight: 8, arbitrary: address }, { weight: 1, arbitrary: tipAddress }),
});
const tipWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("set" as const),
  at: tipAddress,
  value: fc.oneof(
    { weight: 8, arbitrary: known },
    { weight: 2, arbitrary: fc.constant({ inCommit: -1 }) },
    { weight: 1, arbitrary: literal },
  ),
  isRef: fc.constant(true as const),
});
const emptyTipWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("set" as const),
  at: tipAddress,
  value: fc.oneof(
    { weight: 3, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.oneof(payloadText, json) },
  ),
});
const appendWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("append" as const),
  at: address,
  value: json,
});
const deleteListWrite: fc.Arbitrary<WritePlan> = fc.record({
  write: fc.constant("deleteList" as const),
  at: address,
});

const stateWrite: fc.Arbitrary<WritePlan> = fc.oneof(
  { weight: 6, arbitrary: setWrite },
  { weight: 3, arbitrary: deleteWrite },
  { weight: 4, arbitrary: tipWrite },
  { weight: 1, arbitrary: emptyTipWrite },
  { weight: 5, arbitrary: appendWrite },
  { weight: 2, arbitrary: deleteListWrite },
);
const write: fc.Arbitrary<WritePlan> = fc.oneof(
  { weight: 6, arbitrary: entryWrite },
  { weight: 3, arbitrary: usageWrite },
  { weight: 5, arbitrary: stateWrite },
);
const writes = fc.array(write, { maxLength: 6 });

const seq = fc.oneof(
  { weight: 12, arbitrary: fc.nat(40) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      -1,
      Number.MAX_SAFE_INTEGER,
      Number.MIN_SAFE_INTEGER,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
    ),
  },
);
const cursor = fc.record({ seq });
const limit = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 1.5, 10_000, 2 ** 53, Number.POSITIVE_INFINITY, Number.NaN) },
);
const listLimit = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 4 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(0, -1, 1.5, Number.NaN, 10_000, 10_001, Number.MAX_SAFE_INTEGER, 2 ** 53),
  },
);
const order = fc.constantFrom("asc" as const, "desc" as const);

const pathFields = {
  stopAtType: type,
  stopAtId: id,
  type,
  customType,
  order: fc.constantFrom("newestFirst" as const, "oldestFirst" as const),
  limit,
  cursor,
};
const pathQuery: fc.Arbitrary<PathQuery> = query({ start }, pathFields);
const branchQuery: fc.Arbitrary<Partial<PathQuery>> = query({}, { start, ...pathFields });
const findQuery: fc.Arbitrary<FindQuery> = query({}, { type, customType, order, limit, cursor });
const rangeQuery: fc.Arbitrary<RangeQuery> = query(
  {},
  { type, customType, fromSeq: seq, toSeq: seq, order, limit },
);
const usageQuery = query({}, { fromSeq: seq, toSeq: seq, order, limit });
const listQuery: fc.Arbitrary<ListQuery> = query({}, { cursor, order, limit: listLimit });

const read: fc.Arbitrary<Read> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      read: fc.constant("path" as const),
      through: fc.constantFrom(
        "session" as const,
        "mutation" as const,
        "storage" as const,
        "structure" as const,
      ),
      query: pathQuery,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record(
      { read: fc.constant("branch" as const), branch, one: fc.boolean(), query: branchQuery },
      { requiredKeys: ["read", "branch", "one"] },
    ),
  },
  { weight: 2, arbitrary: fc.record({ read: fc.constant("entries" as const), ids: fc.array(id) }) },
  { weight: 1, arbitrary: fc.record({ read: fc.constant("entry" as const), id }) },
  {
    weight: 1,
    arbitrary: fc.record({ read: fc.constant("value" as const), at: fc.oneof(address, tipAddress) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ read: fc.constant("values" as const), at: fc.oneof(address, tipAddress) }),
  },
  {
    weight: 3,
    arbitrary: fc.record(
      { read: fc.constant("list" as const), at: address, options: listQuery },
      { requiredKeys: ["read", "at"] },
    ),
  },
  { weight: 1, arbitrary: fc.record({ read: fc.constant("tip" as const), branch }) },
  {
    weight: 2,
    arbitrary: fc.record(
      { read: fc.constant("find" as const), one: fc.boolean(), query: findQuery },
      { requiredKeys: ["read", "one"] },
    ),
  },
  { weight: 2, arbitrary: fc.record({ read: fc.constant("range" as const), query: rangeQuery }) },
  { weight: 2, arbitrary: fc.record({ read: fc.constant("usage" as const), query: usageQuery }) },
  { weight: 1, arbitrary: fc.record({ read: fc.constantFrom("stats" as const, "name" as const) }) },
  { weight: 1, arbitrary: fc.record({ read: fc.constant("label" as const), id }) },
);

const onSession = {
  on: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
  closed: fc.constant(true as const),
};
const session = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: fc.nat(4) });
const sessionId = fc.constantFrom("s", "s%", "s_", "é", "\u{1f600}", "a b", "S");

type OfSession<T = Operation> = T extends OnSession ? Omit<T, keyof OnSession> : never;

/** An operation on a session; one in thirty goes to a session that was closed. */
function on(operation: fc.Arbitrary<OfSession>): fc.Arbitrary<Operation> {
  const target = fc.oneof(
    { weight: 29, arbitrary: fc.record({ on: onSession.on }) },
    { weight: 1, arbitrary: fc.record(onSession) },
  );
  return fc.tuple(operation, target).map(([what, where]) => ({ ...what, ...where }) as Operation);
}

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 24,
    arbitrary: on(
      fc.record({
        do: fc.constant("commit" as const),
        through: fc.constantFrom("mutate" as const, "mutation" as const, "storage" as const),
        writes,
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: on(
      fc.record({
        do: fc.constant("commitTogether" as const),
        commits: fc.array(writes, { minLength: 2, maxLength: 4 }),
      }),
    ),
  },
  { weight: 5, arbitrary: on(fc.record({ do: fc.constant("write" as const), write: stateWrite })) },
  {
    weight: 9,
    arbitrary: on(
      fc.record({
        do: fc.constant("append" as const),
        branch,
        remembered: fc.boolean(),
        node: fc.oneof(
          fc.record({ message }),
          fc.record({ customType, data: json }, { requiredKeys: ["customType"] }),
        ),
      }),
    ),
  },
  {
    weight: 5,
    arbitrary: on(
      fc.record({
        do: fc.constant("createBranch" as const),
        branch: fc.oneof(branch, nonEmptyIdentifier),
        at: fc.oneof({ weight: 3, arbitrary: id }, { weight: 1, arbitrary: fc.constant(null) }),
      }),
    ),
  },
  {
    weight: 8,
    arbitrary: on(
      fc.record({
        do: fc.constant("makeLane" as const),
        branch,
        tip: fc.oneof({ weight: 4, arbitrary: known }, { weight: 1, arbitrary: fc.constant(null) }),
        keepTip: fc.boolean(),
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: on(
      fc.record({ do: fc.constant("name" as const), name: payloadText }, { requiredKeys: ["do"] }),
    ),
  },
  {
    weight: 3,
    arbitrary: on(
      fc.record(
        { do: fc.constant("label" as const), id, label: payloadText },
        { requiredKeys: ["do", "id"] },
      ),
    ),
  },
  { weight: 15, arbitrary: on(fc.record({ do: fc.constant("read" as const), read })) },
  { weight: 3, arbitrary: on(fc.record({ do: fc.constant("close" as const) })) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("list" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record(
      { do: fc.constant("create" as const), id: sessionId, parent: session },
      { requiredKeys: ["do"] },
    ),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("open" as const), session }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("delete" as const), session, closeFirst: fc.boolean() }),
  },
  {
    weight: 4,
    arbitrary: query({ do: fc.constant("fork" as const), session }, { id: sessionId }),
  },
  {
    weight: 8,
    arbitrary: query(
      { do: fc.constant("fork" as const), session, branch },
      { id: sessionId, entryId: id, position: fc.constantFrom("before" as const, "at" as const) },
    ),
  },
);

/** Anything, and then reads of what has become of the sessions. */
export interface Story {
  readonly operations: Operation[];
  readonly reads: Read[];
}

export const story: fc.Arbitrary<Story> = fc.record({
  operations: fc.array(operation, { minLength: 1, maxLength: 30, size: "max" }),
  reads: fc.array(read, { maxLength: 30, size: "max" }),
});

const said = (content: string): EntryBody => ({
  type: "message",
  message: { role: "user", content, timestamp: 1 },
});
const next = { inCommit: -1 };
const spent = (total: number): Usage => ({
  input: 1,
  output: 2,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 3,
  cost: { input: 0, output: total, cacheRead: 0, cacheWrite: 0, total },
});

/** What every story begins with: a session with two lanes, so that all that follows has something to work on. */
export const PROLOGUE: readonly Operation[] = [
  { do: "create", id: "first" },
  {
    do: "commit",
    on: 0,
    through: "mutate",
    writes: [
      { write: "entry", id: { id: "root" }, parent: null, body: said("one") },
      { write: "entry", id: { id: "e2" }, parent: next, body: { type: "custom", customType: "note" } },
      { write: "usage", id: { id: "u1" }, usage: spent(0.1), adjustment: false },
      { write: "entry", id: { id: "e3" }, parent: next, body: said("two"), customType: "note" },
      {
        write: "entry",
        id: { id: "e4" },
        parent: next,
        body: { type: "compaction", summary: "s", retainedTail: [], tokensBefore: 1, fromHook: false },
      },
      { write: "entry", id: { id: "e5" }, parent: next, body: said("three") },
      ...["k", "k%", "k_", "K", "\uffff", "\u{10000}"].flatMap((key): WritePlan[] => [
        { write: "set", at: { namespace: "app", key }, value: key },
        { write: "append", at: { namespace: "app", key: "k" }, value: key },
      ]),
      { write: "usage", id: { id: "u2" }, entryId: next, usage: spent(0.2), adjustment: true },
      { write: "usage", id: { id: "u3" }, entryId: { id: "" }, usage: spent(0.3), adjustment: false },
      // Every fork has to leave these behind; chance alone hardly ever forks a session that holds them.
      ...["pi.result", "pi.op.meta", "pi.op.%", "pi.pending.entry"].flatMap((namespace): WritePlan[] => [
        { write: "set", at: { namespace, key: "k" }, value: namespace },
        { write: "append", at: { namespace, key: "k" }, value: namespace },
      ]),
    ],
  },
  { do: "makeLane", on: 0, branch: "main", tip: { entry: 0 }, keepTip: false },
  { do: "makeLane", on: 0, branch: "%", tip: { entry: 2 }, keepTip: false },
  {
    do: "append",
    on: 0,
    branch: "%",
    remembered: false,
    node: { message: { role: "user", content: "aside", timestamp: 1 } },
  },
  { do: "label", on: 0, id: { entry: 2 }, label: "here" },
  // A branch with half of what makes it a lane cannot be forked.
  { do: "createBranch", on: 0, branch: "m_in", at: { entry: 1 } },
  {
    do: "write",
    on: 0,
    write: { write: "set", at: { namespace: "pi.lane.config", key: "m_in" }, value: null },
  },
];
