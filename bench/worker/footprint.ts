import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import type { SessionGroup, SessionStore } from "../stores/session-store.ts";
import { seedSession } from "../tasks/seeded-session.ts";
import type { Footprint, FootprintInput } from "./operations.ts";

/** Opens the session, makes it do something, and looks at what this process has more than before. */
export async function measureFootprint(
  store: SessionStore,
  { group: name, entries, isVolatile }: FootprintInput,
): Promise<Footprint> {
  const group = await store.group(name);
  const [metadata] = await group.repo.list(undefined, BACKGROUND_CONTEXT);
  const before = memory();
  const session = isVolatile ? (await seedSession(group, entries)).session : await open(group, metadata);
  const branch = await session.branch("main", BACKGROUND_CONTEXT);
  await branch?.findEntries({ limit: 50 }, BACKGROUND_CONTEXT);
  const after = memory();
  await session.close(BACKGROUND_CONTEXT);
  return { heap: after.heap - before.heap, rss: after.rss - before.rss };
}

function open(
  { repo }: SessionGroup,
  metadata: Awaited<ReturnType<SessionGroup["repo"]["list"]>>[number] | undefined,
) {
  if (metadata === undefined) throw new Error("the group has no session");
  return repo.open(metadata, BACKGROUND_CONTEXT);
}

function memory(): Footprint {
  for (let time = 0; time < 3; time++) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}
