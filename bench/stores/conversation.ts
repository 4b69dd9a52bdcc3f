import { randomInt } from "node:crypto";
import type { Branch, Session, SessionRepo } from "@earendil-works/pi-agent-core";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { branchTip, insertEntry, setValue } from "@earendil-works/pi-agent-core/harness/session";
import { MESSAGE } from "../message.ts";

export interface Conversation {
  readonly session: Session;
  /** Its only one, `main`. */
  readonly branch: Branch;
}

/** Creates a session that has been used: one branch of so many messages. */
export async function startConversation(
  repo: SessionRepo,
  { id, messages, lastId }: { id: number; messages: number; lastId?: string },
): Promise<Conversation> {
  const session = await repo.create({ id: String(id) }, BACKGROUND_CONTEXT);
  const branch = await session.createBranch("main", null, BACKGROUND_CONTEXT);
  const ids = Array.from({ length: messages }, () => session.idGenerator.next());
  if (lastId !== undefined) ids[messages - 1] = lastId;
  const entries = ids.map((entryId, index) =>
    insertEntry({ id: entryId, parentId: ids[index - 1] ?? null, type: "message", message: MESSAGE }),
  );
  const tip = setValue(branchTip("main"), ids.at(-1) ?? null);
  await session.mutate(
    (mutator) => mutator.commit([...entries, tip], BACKGROUND_CONTEXT),
    BACKGROUND_CONTEXT,
  );
  return { session, branch };
}

/** Ids are numbers, since pgbench can count but cannot make texts; this one and the next few thousand are free. */
export function newSessionId(): number {
  return randomInt(100_000_000_000_000, 281_000_000_000_000);
}
