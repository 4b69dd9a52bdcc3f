import { BACKGROUND_CONTEXT as CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { buildSessionContext } from "../../src/index.ts";
import type { Fixture, Task, TaskOpener } from "./task.ts";

export const FIRST_PAGE = "oldest 50 entries of the branch";
export const CONTEXT_TASK = "context since the last compaction";
export const MESSAGES_AFTER_COMPACTION = 200;
const PAGE = 50;

/** What agents do with a branch, beside pi's scenarios. */
export const BRANCH_TASKS: ReadonlyMap<string, TaskOpener> = new Map([
  [FIRST_PAGE, openFirstPage],
  [CONTEXT_TASK, openContext],
]);

async function openFirstPage({ seeded }: Fixture): Promise<Task> {
  const { storage, dataset } = seeded();
  const query = { start: dataset.tipId, order: "oldestFirst", limit: PAGE } as const;
  return {
    run: async () => (await storage.scanBranch(query, CONTEXT)).length,
    expected: PAGE,
  };
}

/** What is done before each call of a model. */
async function openContext({ seeded }: Fixture): Promise<Task> {
  const branch = await seeded().session.branch("main", CONTEXT);
  if (branch === undefined) throw new Error("the seeded session has no branch main");
  return {
    async run() {
      const path = await branch.findEntries({ stopAtType: "compaction" }, CONTEXT);
      return (await buildSessionContext(path.toReversed() as never, undefined, CONTEXT)).length;
    },
    expected: MESSAGES_AFTER_COMPACTION + 1,
  };
}
