import { randomUUID } from "node:crypto";
import {
  branchTip,
  BACKGROUND_CONTEXT as context,
  type Database,
  insertEntry,
  insertUsage,
  type Session,
  setValue,
} from "../../src/index.ts";
import { interleave } from "../measuring/rounds.ts";
import { MESSAGE } from "../message.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import type { Bench } from "../scenarios/bench.ts";

const WIDTH = 8;
export const ROLLING = "with a roll-up every second";

/** Commits of an answer with its usage, as an agent makes them, with and without somebody who sums the ledger. */
export async function spendBesideRollUps(
  { options }: Bench,
  database: Database,
  owner: Database,
): Promise<Line> {
  const repo = await database.repo("t1");
  const sessions = await Promise.all(Array.from({ length: WIDTH }, () => repo.create({}, context)));
  const forMs = options.isQuick ? 500 : 3_000;
  const contenders = [
    { name: OURS, sample: () => spend(sessions, forMs) },
    {
      name: ROLLING,
      async sample() {
        let isOver = false;
        const rolling = (async () => {
          while (!isOver) {
            await owner.usage.rollUp({ tenant: "t1" }, context);
            await new Promise((resolve) => setTimeout(resolve, 1_000));
          }
        })();
        const perSecond = await spend(sessions, forMs);
        isOver = true;
        await rolling;
        return perSecond;
      },
    },
  ];
  for (const { sample } of contenders) await sample(); // warm
  const samples = await interleave(contenders, { rounds: options.isQuick ? 2 : 7 });
  const work = `commit an answer and its usage, ${WIDTH} connections`;
  return lineOf({ section: "What the sums cost those who write", work, unit: "per second" }, samples);
}

async function spend(sessions: readonly Session[], forMs: number): Promise<number> {
  const start = performance.now();
  const counts = await Promise.all(
    sessions.map(async (session) => {
      let commits = 0;
      for (; performance.now() - start < forMs; commits++) await commitAnswer(session);
      return commits;
    }),
  );
  return (counts.reduce((sum, count) => sum + count, 0) / (performance.now() - start)) * 1_000;
}

async function commitAnswer(session: Session): Promise<void> {
  const id = randomUUID();
  const writes = [
    insertEntry({ id, parentId: null, type: "message", message: MESSAGE as never }),
    insertUsage({ id: randomUUID(), entryId: id, adjustment: false, usage: USAGE }),
    setValue(branchTip("main"), id),
  ];
  await session.mutate((mutator) => mutator.commit(writes, context), context);
}

const USAGE = {
  input: 120,
  output: 800,
  cacheRead: 20_000,
  cacheWrite: 300,
  totalTokens: 21_220,
  cost: { input: 0.00036, output: 0.012, cacheRead: 0.006, cacheWrite: 0.001125, total: 0.019485 },
};
