import { type Context, withAbortSignal } from "../contract/context.ts";

/**
 * Works on several items at a time, beginning with the first ones, and yields what becomes of them in their order.
 * After the first error nothing more is begun, what is under way is aborted, and the error is thrown in the place of
 * its item. Whoever stops iterating aborts the rest.
 *
 * @param work is called in the order of the items
 * @param jobs how many at a time
 */
export async function* inOrder<TItem, TResult>(
  items: readonly TItem[],
  work: (item: TItem, context: Context) => Promise<TResult>,
  { jobs }: { jobs: number },
  context: Context,
): AsyncGenerator<TResult> {
  const abort = new AbortController();
  const signals = [abort.signal, ...(context.abortSignal === undefined ? [] : [context.abortSignal])];
  const signal = AbortSignal.any(signals);
  const abortable = withAbortSignal(signal, context);
  const results = items.map(() => Promise.withResolvers<TResult>());
  for (const { promise } of results) promise.catch(() => {}); // thrown when its turn comes, or not at all
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < items.length; at = next++) {
      const result = results[at] as (typeof results)[number];
      try {
        signal.throwIfAborted();
        result.resolve(await work(items[at] as TItem, abortable));
      } catch (error) {
        abort.abort(error);
        result.reject(error);
      }
    }
  };
  const workers = Array.from({ length: jobs }, worker);
  try {
    for (const { promise } of results) yield await promise;
  } finally {
    abort.abort();
    await Promise.all(workers);
  }
}
