import type { CommittedWrite } from "../contract/write.ts";

/** Large commits go in several statements of one transaction, which bounds the memory of both sides. */
const MAX_WRITES = 5_000;

export function* chunkWrites(writes: readonly CommittedWrite[]): Generator<readonly CommittedWrite[]> {
  for (let start = 0; start < writes.length; start += MAX_WRITES)
    yield writes.slice(start, start + MAX_WRITES);
}
