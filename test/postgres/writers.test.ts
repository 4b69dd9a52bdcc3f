import { sql } from "kysely";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  insertEntry,
  openDatabase,
  type PgSession,
  sessionName,
  setValue,
  value,
  withAbortSignal,
  withTimeouts,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

const counter = value<number>("counter");
const note = (id: string) => insertEntry({ id, parentId: null, type: "custom", customType: "note" });

/** The same session opened by so many repositories, as by as many processes. */
async function openShared(id: string, count: number): Promise<PgSession[]> {
  await (await (await at.database.repo("default")).create({ id }, context)).close(context);
  return Promise.all(
    Array.from({ length: count }, async () => (await at.database.repo("default")).open({ id }, context)),
  );
}

describe("a mutation", () => {
  test("runs again when another writer committed between its read and its write", async () => {
    const [mine, other] = (await openShared("again", 2)) as [PgSession, PgSession];
    const seen: (number | undefined)[] = [];
    await mine.mutate(async (mutator) => {
      const before = (await mutator.getValue(counter, context))?.value;
      seen.push(before);
      if (seen.length === 1) await other.setValue(counter, 10, context);
      await mutator.commit([setValue(counter, (before ?? 0) + 1)], context);
    }, context);
    expect(seen).toEqual([undefined, 10]);
    expect((await other.getValue(counter, context))?.value).toBe(11);
  });

  test("runs again even if its callback swallows the conflict", async () => {
    const [mine, other] = (await openShared("swallow", 2)) as [PgSession, PgSession];
    let runs = 0;
    const result = await mine.mutate(async (mutator) => {
      runs++;
      await mutator.getValue(counter, context);
      if (runs === 1) await other.setValue(counter, 1, context);
      return mutator.commit([setValue(counter, 2)], context).then(
        () => "committed",
        () => "gave up",
      );
    }, context);
    expect({ runs, result }).toEqual({ runs: 2, result: "committed" });
  });

  test("that others always overtake gives up, whatever its callback makes of the conflicts", async () => {
    const [mine, other] = (await openShared("overtaken", 2)) as [PgSession, PgSession];
    const overtaken = mine.mutate(async (mutator) => {
      const before = (await mutator.getValue(counter, context))?.value ?? 0;
      await other.setValue(counter, before + 1, context);
      return mutator.commit([setValue(counter, -1)], context).catch(() => "gave up");
    }, context);
    await expect(overtaken).rejects.toMatchObject({ code: "commit_contention" });
    expect((await other.getValue(counter, context))?.value).toBeGreaterThan(1);
  });

  test("keeps every increment of eight writers", async () => {
    const sessions = await openShared("increments", 8);
    await Promise.all(
      sessions.map(async (session) => {
        for (let n = 0; n < 10; n++) {
          await session.mutate(async (mutator) => {
            const before = (await mutator.getValue(counter, context))?.value ?? 0;
            await mutator.commit([setValue(counter, before + 1)], context);
          }, context);
        }
      }),
    );
    expect((await sessions[0]?.getValue(counter, context))?.value).toBe(80);
  });

  test("begun step by step, rejects with a conflict, and only then", async () => {
    const [mine, other] = (await openShared("steps", 2)) as [PgSession, PgSession];
    await mine.setValue(counter, 1, context);
    await other.setValue(counter, 2, context);
    const begun = await mine.beginMutation(context);
    expect((await begun.getValue(counter, context))?.value).toBe(2);
    await begun.commit([setValue(counter, 3)], context);
    await begun.end(context);

    const late = await mine.beginMutation(context);
    await late.getEntries(["x"], context);
    await other.setValue(counter, 4, context);
    await expect(late.commit([note("lost")], context)).rejects.toMatchObject({
      code: "session_conflict",
      sessionId: "steps",
    });
    await late.end(context);
    expect(await mine.getEntries(["lost"], context)).toEqual(new Map());
    await mine.setValue(counter, 5, context);
  });

  test("that has read nothing never fails because of others", async () => {
    const [mine, other] = (await openShared("blind", 2)) as [PgSession, PgSession];
    const begun = await mine.beginMutation(context);
    await other.setValue(counter, 1, context);
    expect(await begun.commit([setValue(counter, 2)], context)).toMatchObject({ firstSeq: 2 });
    await begun.end(context);
  });

  test("two processes appending to one branch make one chain", async () => {
    const [mine, other] = (await openShared("chain", 2)) as [PgSession, PgSession];
    const branches = [await mine.createBranch("main", null, context), await other.branch("main", context)];
    await Promise.all(
      branches.map(async (branch) => {
        for (let n = 0; n < 20; n++) await branch?.appendCustomEntry("note", n, context);
      }),
    );
    expect(await branches[0]?.findEntries(undefined, context)).toHaveLength(40);
  });
});

describe("an exclusive opening", () => {
  test("fences every earlier writer, whose reads still work", async () => {
    const [shared, alsoShared] = (await openShared("fenced", 2)) as [PgSession, PgSession];
    await shared.setValue(counter, 1, context);
    const repos = [await at.database.repo("default"), await at.database.repo("default")] as const;
    const first = await repos[0].open({ id: "fenced" }, context, { exclusive: true });
    const fenced = { code: "session_fenced", sessionId: "fenced" };
    await expect(shared.setValue(counter, 2, context)).rejects.toMatchObject(fenced);
    await expect(alsoShared.mutate((m) => m.commit([note("x")], context), context)).rejects.toMatchObject(
      fenced,
    );
    expect((await shared.getValue(counter, context))?.value).toBe(1);
    await first.setValue(counter, 3, context);

    const second = await repos[1].open({ id: "fenced" }, context, { exclusive: true });
    await expect(first.setValue(counter, 4, context)).rejects.toMatchObject(fenced);
    await second.setValue(counter, 5, context);
    const late = await (await at.database.repo("default")).open({ id: "fenced" }, context);
    await late.setValue(counter, 6, context);
    await second.setValue(counter, 7, context);
    expect((await shared.getValue(counter, context))?.value).toBe(7);
  });
});

/** Runs `work` while a lock on the row of a session keeps everybody from committing to it. */
async function whileLocked(id: string, work: () => Promise<void>): Promise<void> {
  const client = await at.admin.connect();
  try {
    await client.query("begin");
    await client.query(`select from "${at.schema}".sessions where session_id = $1 for update`, [id]);
    await work();
  } finally {
    await client.query("rollback");
    client.release();
  }
}

describe("timeouts", () => {
  test("of one operation, and of all of a database, end waits in the server and leave nothing", async () => {
    const [session] = (await openShared("timeouts", 1)) as [PgSession];
    const impatient = await openDatabase({
      connectionString: at.connectionString,
      schema: at.schema,
      timeouts: { lockMs: 50 },
    });
    const other = await (await impatient.repo("default")).open({ id: "timeouts" }, context);
    await whileLocked("timeouts", async () => {
      for (const attempt of [
        () => session.setValue(counter, 1, withTimeouts({ lockMs: 50 }, context)),
        () => session.setValue(counter, 1, withTimeouts({ statementMs: 50 }, context)),
        () => other.setValue(counter, 1, context),
      ]) {
        await expect(attempt()).rejects.toMatchObject({ code: "operation_timeout" });
      }
    });
    expect(await session.getValue(counter, context)).toBeUndefined();
    await session.setValue(counter, 2, context);
    await other.setValue(counter, 3, context);
    await impatient.close();
  });

  test("of a database hold for an application's own queries", async () => {
    const connection = { connectionString: at.connectionString, schema: at.schema };
    await using stack = new AsyncDisposableStack();
    const impatient = await openDatabase({ ...connection, timeouts: { statementMs: 50, lockMs: 40 } });
    stack.defer(() => impatient.close());
    const settings = sql`select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock`;
    const { rows } = await impatient.withTenant("default", (kysely) => settings.execute(kysely));
    expect(rows).toEqual([{ statement: "50ms", lock: "40ms" }]);
    await expect(
      impatient.withTenant("default", (kysely) => sql`select pg_sleep(60)`.execute(kysely)),
    ).rejects.toMatchObject({ code: "operation_timeout" });
  });

  test.each([{ lockMs: 0 }, { statementMs: -1 }, { statementMs: 0.5 }, { reconnectMs: -1 }, { waitMs: 1 }])(
    "%o are refused",
    async (timeouts) => {
      expect(() => withTimeouts(timeouts, context)).toThrow(
        expect.objectContaining({ code: "invalid_option" }),
      );
      const options = { connectionString: at.connectionString, schema: at.schema, timeouts };
      await expect(openDatabase(options)).rejects.toMatchObject({ code: "invalid_option" });
    },
  );
});

describe("a pool of two connections", () => {
  test("a session whose commits wait does not keep others from committing", async () => {
    const pool = new Pool({ connectionString: at.connectionString, max: 2 });
    const database = await openDatabase({ pool, schema: at.schema });
    const repo = await database.repo("default");
    const slow = await repo.createStorage({ id: "slow" }, context);
    const others = await Promise.all(Array.from({ length: 10 }, () => repo.createStorage({}, context)));
    let waiting: Promise<unknown>[] = [];
    await whileLocked("slow", async () => {
      waiting = ["a", "b", "c", "d"].map((id) => slow.commit([note(id)], context));
      for (let n = 0; n < 5; n++) {
        await Promise.all(others.map((storage) => storage.commit([note(`e${n}`)], context)));
      }
    });
    await Promise.all(waiting);
    expect((await slow.scanEntries({}, context)).map(({ id }) => id)).toEqual(["a", "b", "c", "d"]);
    await database.close();
    await pool.end();
  });

  test("whoever waits for a connection can be aborted, and the others get theirs in order", async () => {
    const pool = new Pool({ connectionString: at.connectionString, max: 1 });
    const database = await openDatabase({ pool, schema: at.schema });
    const repo = await database.repo("default");
    const [blocked, first, second] = await Promise.all(
      ["blocked", "1", "2"].map((id) => repo.createStorage({ id: `queue ${id}` }, context)),
    );
    const order: string[] = [];
    const done = (what: string) => () => order.push(what);
    let finished: Promise<unknown> = Promise.resolve();
    await whileLocked("queue blocked", async () => {
      const controller = new AbortController();
      const holds = blocked?.commit([note("x")], context).then(done("blocked"));
      const one = first?.commit([note("x")], context).then(done("first"));
      const aborted = first?.getStats(withAbortSignal(controller.signal, context));
      const two = second?.commit([note("x")], context).then(done("second"));
      const outcome = expect(aborted).rejects.toThrow("not worth it");
      controller.abort(new Error("not worth it"));
      await outcome;
      finished = Promise.all([holds, one, two]);
    });
    await finished;
    expect(order).toEqual(["blocked", "first", "second"]);
    await database.close();
    await pool.end();
  });
});

test("a name set by one process is seen by the next read of another", async () => {
  const [mine, other] = (await openShared("fresh", 2)) as [PgSession, PgSession];
  await mine.setName("one", context);
  expect(await other.getName(context)).toBe("one");
  await other.setValue(sessionName, "two", context);
  expect(await mine.getName(context)).toBe("two");
});
