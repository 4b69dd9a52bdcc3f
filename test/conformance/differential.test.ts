/**
 * Random operations on a `PgSessionRepo` and on pi's `MemorySessionRepo` must observe the same.
 *
 * DIFFERENTIAL_RUNS sets the number of sequences, DIFFERENTIAL_SEED repeats those of a failed run, which prints it.
 * DIFFERENTIAL_SHRINK_MS is how long a failed sequence is made smaller; without a limit that takes minutes.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { DAMAGES, inflict } from "./differential/damages.ts";
import { PROLOGUE, type Story, story, type WritePlan } from "./differential/operation.ts";
import { memorySide, type Pair, postgresSide, type Side } from "./differential/sides.ts";
import { Disagreement, type Tally, World } from "./differential/world.ts";

const RUNS = Number(process.env["DIFFERENTIAL_RUNS"] ?? 120);
const SEED = process.env["DIFFERENTIAL_SEED"];
const SHRINK_MS = Number(process.env["DIFFERENTIAL_SHRINK_MS"] ?? 45_000);
/** The runs, the first failure and its shrinking. */
const TIMEOUT_MS = 600_000 + SHRINK_MS;

async function live(sides: Pair<Side>, { operations, reads }: Story, tally?: Tally): Promise<void> {
  const world = new World(sides, tally);
  try {
    for (const operation of [...PROLOGUE, ...operations]) await world.perform(operation);
    await world.openEverything();
    for (const [index, read] of reads.entries()) await world.perform({ do: "read", on: index % 2, read });
    await world.compareEverything();
  } finally {
    await world.end();
  }
}

describe("a PgSessionRepo and pi's MemorySessionRepo", () => {
  let at: TestDatabase;
  beforeAll(async () => {
    at = await openTestDatabase();
  });
  afterAll(() => at[Symbol.asyncDispose]());

  const sides = async (): Promise<Pair<Side>> => ({
    subject: await postgresSide(at.database),
    reference: memorySide(),
  });

  test(
    "cannot be told apart by any sequence of operations",
    async () => {
      const tally: Tally = new Map();
      await assertWithShortShrinking(
        fc.asyncProperty(story, async (told) => live(await sides(), told, tally)),
        { numRuns: RUNS, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
      );
      expectBothAnswers(tally);
    },
    TIMEOUT_MS,
  );

  test("agree on a commit of 12,000 writes that meet each other", async () => {
    const tally: Tally = new Map();
    const world = new World(await sides(), tally);
    await world.perform({ do: "create" });
    await world.perform({ do: "commit", on: 0, through: "mutate", writes: manyWrites(12_000) });
    expect(tally.get("commit")).toEqual({ accepted: 1, refused: 0 });
    for (const entry of [0, 1, 2_000]) {
      const query = { start: { entry }, order: "oldestFirst" as const };
      await world.perform({ do: "read", on: 0, read: { read: "path", through: "session", query } });
    }
    await world.compareEverything();
    await world.end();
  });

  // A tip is a value, so anything can be in it. PostgreSQL would take each of these for the entry's id.
  test.each<[string, JsonValue]>([
    ["nothing\ufffd", "nothing\0"],
    ["a\ufffd", "a\ud800"],
    ["5", 5],
    ["true", true],
    ["x", ["x"]],
    ["{}", {}],
  ])("agree that the entry %j is not the tip %j", async (id, tip) => {
    const world = new World(await sides());
    await world.perform({ do: "create" });
    const writes: WritePlan[] = [
      { write: "entry", id: { id }, parent: null, body: { type: "custom", customType: "note" } },
      { write: "set", at: { namespace: "pi.branch.tip", key: "main" }, value: tip },
    ];
    await world.perform({ do: "commit", on: 0, through: "mutate", writes });
    await world.perform({ do: "makeLane", on: 0, branch: "main", tip: null, keepTip: true });
    for (const position of ["at", "before"] as const) {
      await world.perform({ do: "fork", session: 0, branch: "main", position });
    }
    await world.perform({ do: "fork", session: 0, branch: "main", entryId: { id } });
    await world.perform({ do: "fork", session: 0 });
    await world.compareEverything();
    await world.end();
  });

  test("agree on the values under each prefix, where code points end and surrogates begin", async () => {
    const units = ["", "a", "%", "_", "\\", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "\u{10ffff}"];
    const keys = [...new Set(units.flatMap((first) => units.map((second) => first + second)))];
    const world = new World(await sides());
    await world.perform({ do: "create" });
    const writes = keys.map(
      (key): WritePlan => ({ write: "set", at: { namespace: "app", key }, value: key }),
    );
    await world.perform({ do: "commit", on: 0, through: "mutate", writes });
    for (const key of keys) {
      await world.perform({ do: "read", on: 0, read: { read: "values", at: { namespace: "app", key } } });
    }
    await world.end();
  });

  test("read at most 10,000 elements of a list at once, however many are asked for", async () => {
    const tally: Tally = new Map();
    const world = new World(await sides(), tally);
    await world.perform({ do: "create" });
    const at = { namespace: "app", key: "long" };
    const writes = Array.from({ length: 10_050 }, (_, value): WritePlan => ({ write: "append", at, value }));
    await world.perform({ do: "commit", on: 0, through: "mutate", writes });
    expect(tally.get("commit")).toEqual({ accepted: 1, refused: 0 });
    for (const limit of [undefined, 999, 10_000, 10_001, Number.MAX_SAFE_INTEGER]) {
      for (const order of ["asc", "desc"] as const) {
        for (const cursor of [undefined, { seq: 5_000 }]) {
          const options = {
            order,
            ...(limit === undefined ? {} : { limit }),
            ...(cursor === undefined ? {} : { cursor }),
          };
          await world.perform({ do: "read", on: 0, read: { read: "list", at, options } });
        }
      }
    }
    await world.end();
  });
});

/**
 * `fc.assert`, except that shrinking ends after a while: a test that times out while it shrinks prints neither
 * the seed nor what it has found.
 */
async function assertWithShortShrinking<T>(
  property: fc.IAsyncProperty<T>,
  parameters: { numRuns: number; seed?: number },
): Promise<void> {
  const found = await fc.check(property, { ...parameters, endOnFailure: true });
  if (!found.failed) return;
  const { seed, counterexamplePath } = found;
  console.log(
    `Failed with DIFFERENTIAL_SEED=${seed} after ${found.numRuns} sequences, shrinking for ${SHRINK_MS} ms`,
  );
  const shrunk = await fc.check(property, {
    seed,
    ...(counterexamplePath === null ? {} : { path: counterexamplePath }),
    interruptAfterTimeLimit: SHRINK_MS,
  });
  const isReproduced = shrunk.failed && shrunk.counterexample !== null;
  throw new Error(fc.defaultReportMessage(isReproduced ? shrunk : found), {
    cause: (isReproduced ? shrunk : found).errorInstance,
  });
}

/** Entries, values and lists whose addresses and parents repeat far apart. */
function manyWrites(count: number): WritePlan[] {
  return Array.from({ length: count }, (_, index): WritePlan => {
    const at = { namespace: "app", key: `k${index % 701}` };
    switch (index % 6) {
      case 0:
        return { write: "append", at, value: index };
      case 1:
        return index % 7 === 0 ? { write: "deleteList", at } : { write: "set", at, value: index };
      case 2:
        return index % 5 === 0 ? { write: "delete", at } : { write: "set", at, value: { index } };
      default: {
        const entry = Math.trunc(index / 6) * 3 + ((index % 6) - 3);
        return {
          write: "entry",
          id: { id: `e${index}` },
          // Every seventh entry starts another branch far back.
          parent: entry === 0 ? null : { inCommit: entry % 7 === 0 ? Math.trunc(entry / 2) : -1 },
          body: { type: "custom", customType: "note", data: index },
        };
      }
    }
  });
}

/** Without this the sequences might agree because nothing ever happens in them. */
function expectBothAnswers(tally: Tally): void {
  if (RUNS < 100) return;
  for (const kind of [
    "commit",
    "append",
    "createBranch",
    "open",
    "delete",
    "fork branch",
    "read path",
    "read list",
  ]) {
    expect(tally.get(kind)?.accepted, `${kind} accepted`).toBeGreaterThan(0);
    expect(tally.get(kind)?.refused, `${kind} refused`).toBeGreaterThan(0);
  }
  const { accepted, refused } = tally.get("commit") ?? { accepted: 0, refused: 0 };
  expect(accepted).toBeGreaterThan(refused);
}

describe("the comparison finds a backend that", () => {
  test.each(Object.entries(DAMAGES))(
    "%s",
    async (_name, damage) => {
      const property = fc.asyncProperty(story, (told) =>
        live({ subject: memorySide((storage) => inflict(damage, storage)), reference: memorySide() }, told),
      );
      const found = await fc.check(property, { seed: 1, numRuns: 3_000, endOnFailure: true });
      expect(found.failed).toBe(true);
      expect(found.errorInstance).toBeInstanceOf(Disagreement);
      if (process.env["DIFFERENTIAL_VERBOSE"]) console.log(`${_name}: found in run ${found.numRuns}`);
    },
    TIMEOUT_MS,
  );
});
