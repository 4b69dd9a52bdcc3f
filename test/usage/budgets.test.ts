import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import {
  BudgetExceededError,
  BACKGROUND_CONTEXT as context,
  insertEntry,
  insertUsage,
  openDatabase,
  type Session,
  setValue,
  value,
  type Write,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";
import { openLossyProxy } from "../support/lossy-proxy.ts";

let at: TestDatabase;
let names = 0;

beforeAll(async () => {
  at = await openTestDatabase();
});
afterAll(() => at[Symbol.asyncDispose]());

async function newTenant(): Promise<{ slug: string; session: Session }> {
  const slug = `tenant-${++names}`;
  await at.database.tenants.create({ slug });
  const session = await (await at.database.repo(slug)).create({ id: "s" }, context);
  return { slug, session };
}

function commit(session: Session, ...writes: Write[]) {
  return session.mutate((mutator) => mutator.commit(writes, context), context);
}

const note = (): Write =>
  insertEntry({ id: `e${++names}`, parentId: null, type: "custom", customType: "note" });

function spent(
  total: number,
  { timestamp, adjustment = false }: { timestamp?: number; adjustment?: boolean } = {},
): Write {
  return insertUsage({
    id: `u${++names}`,
    adjustment,
    ...(timestamp === undefined ? {} : { details: { timestamp } }),
    usage: {
      input: 1,
      output: 0,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 1,
      cost: { input: total, output: 0, cacheRead: 0, cacheWrite: 0, total },
    },
  });
}

/** Nothing is summed as long as something else on the server is older. */
async function rolledUp(tenant: string): Promise<void> {
  for (let isBehind = true; isBehind; ) {
    await at.database.usage.rollUp({ tenant }, context);
    const { rows } = await at.admin.query(
      `select from "${at.schema}".usage_ledger as u join "${at.schema}".usage_tenants as t using (tenant_id)
       where t.slug = $1 and u.position >= t.position`,
      [tenant],
    );
    isBehind = rows.length > 0;
  }
}

test("a budget says what is spent of it, to the last committed row, whether it is summed yet or not", async () => {
  const { slug, session } = await newTenant();
  const { budget, rollUp } = {
    budget: at.database.usage.budget,
    rollUp: () => at.database.usage.rollUp({ tenant: slug }, context),
  };
  expect(await budget.list(slug, context)).toEqual([]);
  await budget.set(slug, { period: "month", amount: "100.10", timeZone: "Europe/Berlin" }, context);
  await budget.set(slug, { period: "day", amount: 5 }, context);
  expect(await budget.get(slug, "month", context)).toMatchObject({
    spent: "0",
    remaining: "100.1",
    projected: "0",
  });
  const month = await budget.get(slug, "month", context);
  const [from, to] = [month?.from ?? 0, month?.to ?? 0];
  const local = (ms: number) => new Date(ms).toLocaleString("sv", { timeZone: "Europe/Berlin" });
  expect([local(from).slice(7), local(to).slice(7)]).toEqual(["-01 00:00:00", "-01 00:00:00"]);
  expect(from).toBeLessThanOrEqual(Date.now());
  expect(to).toBeGreaterThan(Date.now());
  await commit(
    session,
    spent(0.1),
    spent(0.2),
    spent(1000, { timestamp: from - 1 }),
    spent(4, { timestamp: from }),
  );
  await rollUp();
  await commit(session, spent(0.3), spent(-0.05, { adjustment: true }));
  expect(await budget.get(slug, "month", context)).toMatchObject({
    period: "month",
    timeZone: "Europe/Berlin",
    isHard: false,
    amount: "100.1",
    spent: "4.55",
    remaining: "95.55",
  });
  const projected = Number((await budget.get(slug, "month", context))?.projected);
  expect(projected).toBeGreaterThanOrEqual(4.55);
  expect((await budget.list(slug, context)).map(({ period }) => period)).toEqual(["day", "month"]);
  await budget.remove(slug, "day", context);
  await budget.remove(slug, "day", context);
  expect(await budget.get(slug, "day", context)).toBeUndefined();
});

test("a period that begins within an hour counts each of its rows once, and none of before", async () => {
  const { slug, session } = await newTenant();
  const { budget } = at.database.usage;
  await budget.set(slug, { period: "month", amount: 100, timeZone: "Asia/Kolkata" }, context);
  const { from = 0 } = (await budget.get(slug, "month", context)) ?? {};
  expect(from % 3_600_000).toBe(1_800_000);
  await commit(session, spent(1, { timestamp: from }), spent(2, { timestamp: from + 1_800_000 }));
  await commit(session, spent(4, { timestamp: from - 1 }), spent(8, { timestamp: from - 1_800_000 }));
  expect(await budget.get(slug, "month", context)).toMatchObject({ spent: "3" });
  await rolledUp(slug);
  expect(await budget.get(slug, "month", context)).toMatchObject({ spent: "3" });
});

test("what a clock that is ahead dates into a later period is not spent in this one", async () => {
  const { slug, session } = await newTenant();
  const { budget } = at.database.usage;
  await budget.set(slug, { period: "day", amount: 1, timeZone: "Asia/Kolkata", isHard: true }, context);
  const { to = 0 } = (await budget.get(slug, "day", context)) ?? {};
  expect(to % 3_600_000).toBe(1_800_000);
  await commit(session, spent(0.25, { timestamp: to - 1 }), spent(0.5, { timestamp: to - 1_800_001 }));
  await commit(session, spent(4, { timestamp: to }), spent(8, { timestamp: to + 1_800_000 }));
  await commit(session, note());
  expect(await budget.get(slug, "day", context)).toMatchObject({ spent: "0.75", to });
  await rolledUp(slug);
  expect(await budget.get(slug, "day", context)).toMatchObject({ spent: "0.75", to });
});

test("without a hard budget no commit ever fails for it", async () => {
  const { slug, session } = await newTenant();
  await at.database.usage.budget.set(slug, { period: "day", amount: 1 }, context);
  await commit(session, spent(5));
  await commit(session, note());
});

test("a hard budget that is spent refuses new entries, takes all usage and state, and leaves nothing behind", async () => {
  const { slug, session } = await newTenant();
  const repo = await at.database.repo(slug);
  await at.database.usage.budget.set(slug, { period: "month", amount: 1, isHard: true }, context);
  await commit(session, note(), spent(0.5));
  await commit(session, note());
  await commit(session, note(), spent(0.5));
  const refused = commit(session, note(), setValue(value("app", "k"), 1));
  await expect(refused).rejects.toThrow(BudgetExceededError);
  const { to = 0 } = (await at.database.usage.budget.get(slug, "month", context)) ?? {};
  await expect(refused).rejects.toMatchObject({ code: "budget_exceeded", tenant: slug, until: to });
  const before = await session.getStats(context);
  expect(before).toMatchObject({ usage: { cost: { total: 1 } } });
  await expect(
    session
      .createBranch("main", null, context)
      .then((branch) => branch.appendMessage({ role: "user", content: "hi", timestamp: 1 }, context)),
  ).rejects.toThrow(BudgetExceededError);
  expect(await session.findEntries({}, context)).toHaveLength(3);
  // What was paid is written down, and an agent can end in order.
  await commit(session, note(), spent(2));
  await commit(session, setValue(value("app", "k"), 2));
  expect((await at.database.usage.budget.get(slug, "month", context))?.spent).toBe("3");
  // Another session of the tenant is stopped too, and no other tenant.
  const second = await repo.create({}, context);
  await expect(commit(second, note())).rejects.toThrow(BudgetExceededError);
  await commit((await newTenant()).session, note());
});

test.each<[string, (slug: string) => Promise<void>]>([
  [
    "raised",
    (slug) => at.database.usage.budget.set(slug, { period: "day", amount: 10, isHard: true }, context),
  ],
  ["made soft", (slug) => at.database.usage.budget.set(slug, { period: "day", amount: 1 }, context)],
  ["removed", (slug) => at.database.usage.budget.remove(slug, "day", context)],
])("a budget that is %s lets the tenant go on at once", async (_, change) => {
  const { slug, session } = await newTenant();
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  await commit(session, spent(1));
  await expect(commit(session, note())).rejects.toThrow(BudgetExceededError);
  await change(slug);
  await commit(session, note());
});

test("a hard budget on what is spent already stops the tenant at once, and ends with its period", async () => {
  const { slug, session } = await newTenant();
  await commit(session, spent(1));
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  await expect(commit(session, note())).rejects.toThrow(BudgetExceededError);
  // The clock cannot be turned, so the end of the period is moved into the past.
  await at.admin.query(`update "${at.schema}".tenants set exhausted_until = 1 where slug = $1`, [slug]);
  await commit(session, note());
});

test("a commit that is recorded does not fail for the check behind it, which the next one makes up for", async () => {
  const { slug, session } = await newTenant();
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  await commit(session, spent(0.5));
  const impatient = await openDatabase({
    connectionString: at.connectionString,
    schema: at.schema,
    timeouts: { lockMs: 100 },
  });
  onTestFinished(() => impatient.close());
  const other = await (await impatient.repo(slug)).create({ id: "other" }, context);
  const rollUp = await at.admin.connect();
  await rollUp.query(`begin; select from "${at.schema}".usage_tenants for update`);
  await commit(other, spent(1));
  await rollUp.query("rollback");
  rollUp.release();
  expect(await at.database.usage.budget.get(slug, "day", context)).toMatchObject({ spent: "1.5" });
  await commit(other, spent(0));
  await expect(commit(session, note())).rejects.toThrow(BudgetExceededError);
});

test("a commit of which the answer gets lost is checked too", async () => {
  const { slug } = await newTenant();
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  await using proxy = await openLossyProxy(at.connectionString);
  const far = await openDatabase({ connectionString: proxy.connectionString, schema: at.schema });
  const session = await (await far.repo(slug)).create({ id: "far" }, context);
  const lost = proxy.loseNextCommit();
  const committed = commit(session, spent(1));
  await lost;
  proxy.release();
  await committed;
  expect(await at.database.usage.budget.get(slug, "day", context)).toMatchObject({ spent: "1" });
  await expect(commit(session, note())).rejects.toThrow(BudgetExceededError);
  await far.close();
});

test("an adjustment that gives money back lets the tenant go on", async () => {
  const { slug, session } = await newTenant();
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  await commit(session, spent(1));
  await commit(session, spent(-0.5, { adjustment: true }));
  await commit(session, note());
});

test("sixteen writers who spend at once are stopped once the budget is spent, and every cent is recorded", async () => {
  const { slug } = await newTenant();
  const repo = await at.database.repo(slug);
  await at.database.usage.budget.set(slug, { period: "day", amount: 1, isHard: true }, context);
  const outcomes = await Promise.all(
    Array.from({ length: 16 }, async () => {
      const session = await repo.create({}, context);
      let spentHere = 0;
      for (let round = 0; round < 20; round++) {
        try {
          await commit(session, note());
        } catch (error) {
          expect(error).toBeInstanceOf(BudgetExceededError);
          return spentHere;
        }
        await commit(session, spent(0.01));
        spentHere++;
      }
      return spentHere;
    }),
  );
  const cents = outcomes.reduce((sum, count) => sum + count, 0);
  expect(cents).toBeGreaterThanOrEqual(100);
  // Whoever began before the budget was spent may record what that cost.
  expect(cents).toBeLessThanOrEqual(100 + 2 * 16);
  expect((await at.database.usage.budget.get(slug, "day", context))?.spent).toBe(String(cents / 100));
});

test.each<[object, string]>([
  [{ period: "year", amount: 1 }, "period"],
  [{ period: "day", amount: -1 }, "amount"],
  [{ period: "day", amount: Number.NaN }, "amount"],
  [{ period: "day", amount: "1e3" }, "amount"],
  [{ period: "day", amount: "0.1234567890123" }, "amount"],
  [{ period: "day", amount: null }, "amount"],
  [{ period: "day", amount: 1, timeZone: "+02:00" }, "timeZone"],
  [{ period: "day", amount: 1, timeZone: "Mars/Olympus" }, "timeZone"],
  [{ period: "day", amount: 1, isHard: 1 }, "isHard"],
])("the budget %j is refused", async (budget, option) => {
  const { slug } = await newTenant();
  await expect(at.database.usage.budget.set(slug, budget as never, context)).rejects.toMatchObject({
    code: "invalid_option",
    option,
  });
});

test("a tenant that does not exist has no budget", async () => {
  const { budget } = at.database.usage;
  const missing = { code: "tenant_not_found" };
  await expect(budget.set("nobody", { period: "day", amount: 1 }, context)).rejects.toMatchObject(missing);
  await expect(budget.list("nobody", context)).rejects.toMatchObject(missing);
  await expect(budget.remove("nobody", "day", context)).rejects.toMatchObject(missing);
});
