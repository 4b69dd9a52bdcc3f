import { cp } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { locateBinaries } from "../../src/embedded/binaries.ts";
import { ensureCluster } from "../../src/embedded/cluster.ts";
import { openDataDir } from "../../src/embedded/data-dir.ts";
import { launch, listenOn } from "../../src/embedded/launch.ts";
import { choosePort } from "../../src/embedded/port.ts";
import { readPostmaster } from "../../src/embedded/postmaster.ts";
import { chooseServerUser } from "../../src/embedded/server-user.ts";
import { query, scratchDirectory, startScratchServer } from "./scratch.ts";

describe.skipIf(process.getuid?.() !== 0)("as root, whom PostgreSQL refuses,", () => {
  test("a server runs on data in a directory that only root can enter", async () => {
    await using directory = await scratchDirectory();
    const server = await startScratchServer(join(directory.path, "data"));
    expect(await query(server.connectionString, "select current_user::text")).toEqual(["postgres"]);
    await server.stop();
  });

  test("programs that only root can reach initialise and start a server", async () => {
    await using directory = await scratchDirectory();
    const installed = dirname(dirname((await locateBinaries()).postgres));
    const native = join(directory.path, "native");
    await cp(installed, native, { recursive: true, verbatimSymlinks: true });
    const binaries = { postgres: join(native, "bin/postgres"), initdb: join(native, "bin/initdb") };
    const dataDir = await openDataDir(join(directory.path, "data"));

    const user = await chooseServerUser(binaries, dataDir.path, dataDir.clusterDir);
    expect(user.owner?.uid).toBeGreaterThan(0);
    await ensureCluster(dataDir, binaries, user, ["--no-sync"]);
    const server = await launch(dataDir, binaries, user, listenOn(await choosePort(dataDir)));
    await expect.poll(async () => (await readPostmaster(dataDir))?.status).toBe("ready");
    await server.stop();
  });
});
