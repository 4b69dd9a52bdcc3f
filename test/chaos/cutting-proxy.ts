import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { Random } from "./random.ts";

/** A way to the server on which every connection ends sooner or later, at any byte of any message. */
export interface CuttingProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that were cut. */
  readonly cuts: number;
  /** Where the server is from now on. */
  leadTo(port: number): void;
  /** From now on connections last. */
  stopCutting(): void;
}

/** A connection lives for up to so many bytes in the direction in which it is cut. */
const MAX_BYTES = { sent: 60_000, received: 30_000 } as const;

/** @param randomOf what chooses the fate of the connection with that number */
export async function openCuttingProxy(randomOf: (connection: number) => Random): Promise<CuttingProxy> {
  const sockets = new Set<Socket>();
  let serverPort = 0;
  let connections = 0;
  let cuts = 0;
  let isCutting = true;

  const proxy = createServer((client) => {
    const random = randomOf(connections++);
    const upstream = connect(serverPort, "127.0.0.1");
    const direction = random.pick(["sent", "received"] as const);
    const position = random.below(MAX_BYTES[direction]);
    // A reset throws away what the other side has not read yet; an end does not.
    const end = random.pick(["destroy", "resetAndDestroy"] as const);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    const pass = (from: Socket, to: Socket, isCutHere: boolean) => {
      let passed = 0;
      from.on("data", (chunk: Buffer) => {
        const left = position - passed;
        passed += chunk.length;
        if (!isCutHere || !isCutting || passed <= position || left < 0) {
          to.write(chunk);
          return;
        }
        cuts++;
        from.pause();
        to.write(chunk.subarray(0, left), () => {
          to[end]();
          from[end]();
        });
      });
    };
    pass(client, upstream, direction === "sent");
    pass(upstream, client, direction === "received");
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");

  return {
    port: (proxy.address() as AddressInfo).port,
    get cuts() {
      return cuts;
    },
    leadTo(port) {
      serverPort = port;
    },
    stopCutting() {
      isCutting = false;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, "close");
    },
  };
}
