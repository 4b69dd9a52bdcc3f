import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { DataDir } from "./data-dir.ts";

export const HOST = "127.0.0.1";

/** The port of the last start if it is free, so that a printed connection string stays valid; else any free one. */
export async function choosePort(dataDir: DataDir): Promise<number> {
  const last = Number(await readFile(dataDir.portFile, "utf8").catch(() => "0"));
  const remembered =
    Number.isInteger(last) && last > 0 && last < 65_536 ? await listenBriefly(last) : undefined;
  return remembered ?? (await listenBriefly(0)) ?? 0;
}

export async function rememberPort(dataDir: DataDir, port: number): Promise<void> {
  await writeFile(dataDir.portFile, `${port}\n`);
}

/** Port 0 lets the system choose. Undefined when the port is taken. */
function listenBriefly(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ host: HOST, port, exclusive: true }, () => {
      const address = server.address();
      const chosen = typeof address === "object" && address !== null ? address.port : undefined;
      server.close(() => resolve(chosen));
    });
  });
}
