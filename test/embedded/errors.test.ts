import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EmbeddedServerError } from "../../src/embedded/errors.ts";
import { scratchDirectory, startScratchServer } from "./scratch.ts";

let directory: Awaited<ReturnType<typeof scratchDirectory>>;
let dataDir: string;

beforeAll(async () => {
  directory = await scratchDirectory();
  dataDir = join(directory.path, "data");
  await (await startScratchServer(dataDir)).stop();
});

afterAll(() => directory[Symbol.asyncDispose]());

async function failedStart(path: string, settings?: Record<string, string>): Promise<EmbeddedServerError> {
  const error = await startScratchServer(path, settings).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(EmbeddedServerError);
  return error as EmbeddedServerError;
}

test("a data directory that cannot be made is named", async () => {
  const file = join(directory.path, "file");
  await writeFile(file, "");
  const error = await failedStart(join(file, "data"));
  expect(error.code).toBe("server_data_dir");
  expect(error.message).toContain(join(file, "data"));
});

test.skipIf(process.getuid?.() === 0)("a data directory that cannot be written is named", async () => {
  const readOnly = join(directory.path, "read-only");
  await mkdir(readOnly, { mode: 0o500 });
  const error = await failedStart(readOnly);
  expect(error.code).toBe("server_data_dir");
  expect(error.message).toContain(readOnly);
});

test("a cluster without its password file is not touched", async () => {
  const passwordFile = join(dataDir, "password");
  const password = await readFile(passwordFile, "utf8");
  await rm(passwordFile);
  const error = await failedStart(dataDir);
  await writeFile(passwordFile, password, { mode: 0o600 });
  expect(error.code).toBe("server_data_dir");
  expect(error.message).toContain(passwordFile);
});

test("data of another major version are recognised", async () => {
  const versionFile = join(dataDir, "cluster", "PG_VERSION");
  const version = await readFile(versionFile, "utf8");
  await writeFile(versionFile, "14\n");
  const error = await failedStart(dataDir);
  await writeFile(versionFile, version);
  expect(error.code).toBe("server_version");
  expect(error.message).toContain("PostgreSQL 14");
});

test("when the server does not start, the error shows what it printed", async () => {
  const error = await failedStart(dataDir, { shared_buffers: "1 banana" });
  expect(error.code).toBe("server_start");
  expect(error.log.join("\n")).toContain("1 banana");
  expect(error.message).toContain("1 banana");
});

test("when initdb fails, the error shows what it printed, and no cluster is left", async () => {
  const path = join(directory.path, "no-cluster");
  const { startEmbeddedServer } = await import("../../src/embedded/server.ts");
  const start = startEmbeddedServer({ dataDir: path, initdbFlags: ["--wal-segsize=3"] });
  await expect(start).rejects.toMatchObject({
    code: "server_init",
    message: expect.stringContaining("wal-segsize"),
  });
  await (await startScratchServer(path)).stop();
});
