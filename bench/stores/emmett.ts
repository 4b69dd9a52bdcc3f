import { getPostgreSQLEventStore } from "@event-driven-io/emmett-postgresql";
import pg from "pg";
import { MESSAGE } from "../message.ts";
import { MAX_CONNECTIONS } from "../server/bench-server.ts";
import type { AppendStore, Lane } from "./append-store.ts";

const EVENT = { type: "MessageAppended", data: { message: MESSAGE } };

/** Emmett's event store: one stream per conversation, one event per message. */
export async function openEmmettStore(connectionString: string): Promise<AppendStore> {
  const pool = new pg.Pool({ connectionString, max: MAX_CONNECTIONS });
  const store = getPostgreSQLEventStore(connectionString, { connectionOptions: { pooled: true, pool } });
  await store.schema.migrate();
  return {
    openLanes(width, messages) {
      const openLane = async (): Promise<Lane> => {
        const stream = `conversation-${crypto.randomUUID()}`;
        await store.appendToStream(stream, Array(messages).fill(EVENT));
        return () => store.appendToStream(stream, [EVENT]);
      };
      return Promise.all(Array.from({ length: width }, openLane));
    },
    async close() {
      await store.close();
      await pool.end();
    },
  };
}
