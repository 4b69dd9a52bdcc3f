import { expect, test } from "vitest";
import { postmasterPid, query, scratchDirectory, untilRefusing } from "../embedded/scratch.ts";
import { startCommand } from "./pi-sessions.ts";

test("serve runs the server until it is told to end, and then leaves none behind", async () => {
  await using directory = await scratchDirectory();
  const serve = startCommand(["--data-dir", directory.path, "serve"]);
  const connectionString = await serve.firstLine;
  for (let round = 0; round < 20; round++) expect(await query(connectionString, "select 1")).toEqual([1]);
  expect(serve.process.exitCode).toBeNull();
  serve.process.kill("SIGTERM");
  expect((await serve.finished).code).toBe(0);
  await expect(query(connectionString, "select 1")).rejects.toThrow();
});

test("serve ends with an error when its server goes away", async () => {
  await using directory = await scratchDirectory();
  const serve = startCommand(["--data-dir", directory.path, "serve"]);
  await serve.firstLine;
  process.kill(await postmasterPid(directory.path), "SIGINT");
  expect(await serve.finished).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("The server has ended"),
  });
});

test("a second serve uses the server of the first, and leaves it running", async () => {
  await using directory = await scratchDirectory();
  const first = startCommand(["--data-dir", directory.path, "serve"]);
  const connectionString = await first.firstLine;
  const second = startCommand(["--data-dir", directory.path, "serve"]);
  expect(await second.firstLine).toBe(connectionString);
  second.process.kill("SIGINT");
  expect((await second.finished).code).toBe(0);
  expect(await query(connectionString, "select 1")).toEqual([1]);
  first.process.kill("SIGINT");
  expect((await first.finished).code).toBe(0);
  await untilRefusing(connectionString);
});
