import type { Session, Storage } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { branchTip, insertEntry, setValue } from "@earendil-works/pi-agent-core/harness/session";
import {
  STORAGE_BENCHMARK_DATASETS,
  seedSessionRepoForkBenchmark,
} from "@earendil-works/pi-agent-core/harness/session/testing";
import { MESSAGE } from "../message.ts";
import type { SessionGroup } from "../stores/session-store.ts";
import { TrackingRepo } from "./tracking-repo.ts";

export type Dataset = (typeof STORAGE_BENCHMARK_DATASETS)[number];

/** pi's synthetic conversation: one branch `main` of messages with payloads of 256 bytes. */
export interface SeededSession {
  readonly dataset: Dataset;
  readonly session: Session;
  readonly storage: Storage;
}

export async function seedSession(group: SessionGroup, entries: number): Promise<SeededSession> {
  const dataset = STORAGE_BENCHMARK_DATASETS.find(({ entryCount }) => entryCount === entries);
  if (dataset === undefined) throw new Error(`pi has no dataset of ${entries} entries`);
  const tracking = new TrackingRepo(group.repo);
  await seedSessionRepoForkBenchmark(tracking, dataset);
  const [session] = tracking.opened;
  if (session === undefined) throw new Error("pi's seed opened no session");
  return { dataset, session, storage: await group.storageOf(session) };
}

/** Adds a compaction at the tip of `main`, and messages after it. */
export async function compact({ session, dataset }: SeededSession, messagesAfter: number): Promise<void> {
  await session.mutate(
    (mutator) =>
      mutator.commit(
        [
          insertEntry({
            id: "compaction",
            parentId: dataset.tipId,
            type: "compaction",
            summary: "What was said before. ".repeat(100),
            retainedTail: [],
            tokensBefore: 150_000,
            fromHook: false,
          }),
          setValue(branchTip("main"), "compaction"),
        ],
        BACKGROUND_CONTEXT,
      ),
    BACKGROUND_CONTEXT,
  );
  const branch = await session.branch("main", BACKGROUND_CONTEXT);
  for (let index = 0; index < messagesAfter; index++)
    await branch?.appendMessage(MESSAGE, BACKGROUND_CONTEXT);
}
