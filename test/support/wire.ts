import { once } from "node:events";
import { type AddressInfo, connect as connectTo, createServer, type Socket } from "node:net";

/** The way of the answers. Long enough for everything that is sent without waiting for one to be on its way. */
const DELAY_MS = 30;

/** A distant server, as a way to a near one. */
export interface Wire extends AsyncDisposable {
  readonly connectionString: string;
  /** How often the client waited for an answer before it sent something: the round trips of `work`. */
  countTurns(work: () => Promise<unknown>): Promise<number>;
}

/** @param connectionString of the server behind it */
export async function openWire(connectionString: string): Promise<Wire> {
  const target = new URL(connectionString);
  const sockets = new Set<Socket>();
  let turns = 0;

  const server = createServer((client) => {
    const upstream = connectTo(Number(target.port), target.hostname);
    upstream.setNoDelay(true);
    client.setNoDelay(true);
    let isClientsTurn = true;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (chunk) => {
      if (isClientsTurn) turns++;
      isClientsTurn = false;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      setTimeout(() => {
        isClientsTurn = true;
        client.write(chunk);
      }, DELAY_MS);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(connectionString);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);

  return {
    connectionString: url.href,
    async countTurns(work) {
      const before = turns;
      await work();
      return turns - before;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
