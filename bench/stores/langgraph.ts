import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { MESSAGE_TEXT } from "../message.ts";
import { MAX_CONNECTIONS } from "../server/bench-server.ts";
import type { AppendStore, Lane } from "./append-store.ts";

/** Of a message in pi's synthetic session, which a thread is compared with. */
const SEEDED_BYTES = 256;

/**
 * LangGraph's checkpointer. Each of its checkpoints holds the whole conversation, so appending one message to a thread
 * is one `put` of all of them.
 */
export interface LangGraphStore extends AppendStore {
  /** Stores a thread of so many messages, and resolves to what reads them back: the number of messages found. */
  openThread(messages: number): Promise<() => Promise<number>>;
}

export async function openLangGraphStore(connectionString: string): Promise<LangGraphStore> {
  const pool = new pg.Pool({ connectionString, max: MAX_CONNECTIONS });
  const saver = new PostgresSaver(pool);
  await saver.setup();
  return {
    openLanes: async (width, messages) =>
      Array.from({ length: width }, () => openLane(saver, conversation(messages))),
    async openThread(length) {
      const threadId = crypto.randomUUID();
      await put(saver, threadId, undefined, conversation(length, SEEDED_BYTES), 1);
      return async () => {
        const found = await saver.getTuple({ configurable: { thread_id: threadId } });
        return (found?.checkpoint.channel_values["messages"] as BaseMessage[] | undefined)?.length ?? 0;
      };
    },
    close: () => saver.end(),
  };
}

function openLane(saver: PostgresSaver, messages: BaseMessage[]): Lane {
  const threadId = crypto.randomUUID();
  let last: string | undefined;
  let step = 0;
  return async () => {
    step++;
    last = await put(saver, threadId, last, [...messages.slice(0, -1), newMessage(step)], step);
  };
}

async function put(
  saver: PostgresSaver,
  threadId: string,
  parent: string | undefined,
  messages: BaseMessage[],
  step: number,
): Promise<string> {
  const id = uuid6(step);
  const versions = { messages: step };
  await saver.put(
    { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: parent } },
    { ...emptyCheckpoint(), id, channel_values: { messages }, channel_versions: versions },
    { source: "loop", step, parents: {} },
    versions,
  );
  return id;
}

function conversation(length: number, bytes?: number): BaseMessage[] {
  return Array.from({ length }, (_, index) => newMessage(index, bytes));
}

function newMessage(index: number, bytes = MESSAGE_TEXT.length): BaseMessage {
  const fields = { id: crypto.randomUUID(), content: MESSAGE_TEXT.slice(0, bytes) };
  return index % 2 === 0 ? new HumanMessage(fields) : new AIMessage(fields);
}
