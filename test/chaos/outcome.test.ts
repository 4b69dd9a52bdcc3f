import { expect, test } from "vitest";
import { BACKGROUND_CONTEXT as context, insertEntry, openDatabase } from "../../src/index.ts";
import { openTestDatabase } from "../support/database.ts";
import { openLossyProxy } from "../support/lossy-proxy.ts";

test("a commit that has happened is not refused because looking for it took too long", async () => {
  await using at = await openTestDatabase();
  await using proxy = await openLossyProxy(at.connectionString);
  const applicationName = `app_${at.schema}`;
  const database = await openDatabase({
    connectionString: proxy.connectionString,
    schema: at.schema,
    applicationName,
    timeouts: { lockMs: 50 },
  });
  const storage = await (await database.repo("default")).createStorage({ id: "s" }, context);
  const cut = proxy.loseNextCommit();
  const commit = storage.commit(
    [insertEntry({ id: "a", parentId: null, type: "custom", customType: "x" })],
    context,
  );
  // Looked at below; it may fail before.
  commit.catch(() => {});
  await cut;
  const gate = await at.admin.connect();
  const isWaiting = async () => {
    const { rowCount } = await at.admin.query(
      "select from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'",
      [applicationName],
    );
    return rowCount !== 0;
  };
  try {
    await gate.query("begin");
    await gate.query(`lock table "${at.schema}".sessions in access exclusive mode`);
    proxy.release();
    // The same commit is sent again, and gives up waiting for the table.
    while (!(await isWaiting()));
    while (await isWaiting());
  } finally {
    await gate.query("rollback");
    gate.release();
  }
  expect(await commit).toMatchObject({ firstSeq: 1, seqs: [1] });
  expect(await storage.scanEntries({}, context)).toHaveLength(1);
  await database.close();
});
