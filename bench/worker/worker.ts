/** A process that works with one store, so that the heaps of the others do not get in its way. */
import type { Answer, Operations, Request, WorkerConfig } from "./operations.ts";
import { openOperations } from "./store-operations.ts";

const config = JSON.parse(process.argv[2] ?? "{}") as WorkerConfig;
const opening = openOperations(config);

process.on("message", async ({ id, operation, input }: Request) => {
  process.send?.(await answer(id, operation, input));
});
process.on("disconnect", () => process.exit());

async function answer(id: number, operation: keyof Operations, input: unknown): Promise<Answer> {
  try {
    const perform = (await opening)[operation] as ((input: unknown) => Promise<unknown>) | undefined;
    if (perform === undefined) throw new Error(`${config.store} has no ${operation}`);
    return { id, output: await perform(input) };
  } catch (error) {
    return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
