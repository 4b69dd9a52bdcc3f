import { once } from "node:events";
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from "node:net";

/** A way to the server on which the answer to a commit can get lost. */
export interface LossyProxy extends AsyncDisposable {
  readonly connectionString: string;
  /**
   * Cuts the connection on which the next transaction commits, after the server has committed it and before the
   * answer arrives. From then on nobody gets through until `release`. Resolves at the cut.
   */
  loseNextCommit(): Promise<void>;
  release(): void;
}

/** @param connectionString of the server behind it */
export async function openLossyProxy(connectionString: string): Promise<LossyProxy> {
  const target = new URL(connectionString);
  const sockets = new Set<Socket>();
  let lost: (() => void) | undefined;
  let gate = Promise.resolve();
  let openGate = () => {};

  const server: Server = createServer(async (client) => {
    await gate;
    const upstream = connectTo(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      if (lost !== undefined && chunk.includes("COMMIT\0")) {
        lost();
        lost = undefined;
        client.destroy();
      } else client.write(chunk);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(connectionString);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);

  return {
    connectionString: url.href,
    loseNextCommit() {
      const { promise, resolve } = Promise.withResolvers<void>();
      lost = () => {
        const blocked = Promise.withResolvers<void>();
        gate = blocked.promise;
        openGate = blocked.resolve;
        resolve();
      };
      return promise;
    },
    release: () => openGate(),
    async [Symbol.asyncDispose]() {
      openGate();
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
