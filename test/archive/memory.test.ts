import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestDatabase } from "../support/database.ts";
import { writeLargeFile } from "./large-file.ts";
import { scratch } from "./scratch.ts";

const MIB = 1024 * 1024;

test("a large file imports in memory that does not grow with it", { timeout: 300_000 }, async () => {
  await using database = await openTestDatabase();
  await using directory = await scratch();
  const path = join(directory.path, "large.jsonl");
  const { records } = await writeLargeFile(path, { bytes: 200 * MIB });
  const script = join(import.meta.dirname, "import-process.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--experimental-strip-types",
    "--no-warnings",
    script,
    database.connectionString,
    database.schema,
    path,
  ]);
  const { files, seconds, peakBytes } = JSON.parse(stdout);
  console.log(`200 MiB: ${Math.round(peakBytes / MIB)} MiB at most, ${Math.round(seconds)} s`);
  expect(files).toMatchObject([{ status: "imported", entries: records }]);
  expect(peakBytes).toBeLessThan(300 * MIB);
});
