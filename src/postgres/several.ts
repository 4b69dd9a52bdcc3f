/**
 * Runs work on each of the items, on several of them at a time, as they come. After a failure nothing more is begun,
 * and it is thrown when nothing runs any more.
 */
export async function several<T>(
  items: readonly T[],
  { atOnce }: { readonly atOnce: number },
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items].reverse();
  const workers = Array.from({ length: atOnce }, async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) {
      await work(item).catch((error: unknown) => {
        left.length = 0;
        throw error;
      });
    }
  });
  const outcomes = await Promise.allSettled(workers);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}
