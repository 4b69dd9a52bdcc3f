import { join } from "node:path";
import { expect, test } from "vitest";
import { openEmbeddedDatabase } from "../../src/embedded/index.ts";
import { query, scratchDirectory } from "./scratch.ts";

const TABLES =
  "select table_name::text from information_schema.tables where table_schema = 'agents' order by 1";

test("an embedded database keeps what it was migrated to, and closing it stops the server", async () => {
  await using directory = await scratchDirectory();
  const dataDir = join(directory.path, "data");

  const first = await openEmbeddedDatabase({ dataDir, schema: "agents" });
  await first.migrate();
  const tables = await query(first.connectionString, TABLES);
  expect(tables).toContain("sessions");
  await first.close();
  await expect(query(first.connectionString, "select 1")).rejects.toThrow(/ECONNREFUSED/);

  const second = await openEmbeddedDatabase({ dataDir, schema: "agents" });
  expect(await query(second.connectionString, TABLES)).toEqual(tables);
  await second.close();
});

test("closing a second open of the same directory leaves the first one working", async () => {
  await using directory = await scratchDirectory();
  const dataDir = join(directory.path, "data");

  const owner = await openEmbeddedDatabase({ dataDir });
  const guest = await openEmbeddedDatabase({ dataDir });
  await guest.migrate();
  await guest.close();
  await owner.migrate();
  await owner.close();
});
