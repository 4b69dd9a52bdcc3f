import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { MESSAGE } from "../message.ts";
import type { AppendStore, Lane } from "./append-store.ts";
import { newSessionId, startConversation } from "./conversation.ts";
import type { SessionStore } from "./session-store.ts";

/** Open sessions, each with a branch at whose tip messages are appended. */
export function sessionLanes(store: SessionStore): AppendStore {
  return {
    async openLanes(width, messages) {
      const { repo } = await store.group("appends");
      const openLane = async (): Promise<Lane> => {
        const { branch } = await startConversation(repo, { id: newSessionId(), messages });
        return () => branch.appendMessage(MESSAGE, BACKGROUND_CONTEXT);
      };
      return Promise.all(Array.from({ length: width }, openLane));
    },
    isRefusal: (error) => store.isRefusal?.(error) === true,
    repeats: () => store.repeats?.() ?? 0,
    close: () => store.close(),
  };
}
