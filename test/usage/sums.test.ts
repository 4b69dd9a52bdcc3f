import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  BACKGROUND_CONTEXT as context,
  insertUsage,
  type PgSessionRepo,
  type Session,
  type Write,
} from "../../src/index.ts";
import { openTestDatabase, type TestDatabase } from "../support/database.ts";

let at: TestDatabase;
let repo: PgSessionRepo;

beforeAll(async () => {
  at = await openTestDatabase();
  await at.database.tenants.create({ slug: "acme" });
  repo = await at.database.repo("acme");
});
afterAll(() => at[Symbol.asyncDispose]());

const HOUR = 3_600_000;

interface Spending {
  at: number;
  model: string;
  tokens: number;
  cost: number;
  adjustment: boolean;
}

let rows = 0;

function usageRow({ at: timestamp, model, tokens, cost, adjustment }: Spending): Write {
  return insertUsage({
    id: `u${++rows}`,
    adjustment,
    details: { provider: "acme", model, timestamp },
    usage: {
      input: tokens,
      output: 1,
      cacheRead: 2,
      cacheWrite: 3,
      cacheWrite1h: 1,
      totalTokens: tokens + 6,
      cost: { input: cost, output: 0, cacheRead: 0, cacheWrite: 0, total: cost },
    },
  });
}

function commit(session: Session, writes: Write[]) {
  return session.mutate((mutator) => mutator.commit(writes, context), context);
}

const MEASURES = `count(*) as rows, count(*) filter (where not adjustment and total_tokens > 0 and cost_total = 0) as zero,
  sum(input) as input, sum(output) as output, sum(cache_read) as cache_read, sum(cache_write) as cache_write,
  coalesce(sum(cache_write_1h), 0) as cache_write_1h, coalesce(sum(reasoning), 0) as reasoning,
  sum(total_tokens) as total_tokens, sum(cost_input) as cost_input, sum(cost_total) as cost_total`;

/** The sums as they are, and as they follow from the ledger, for all spans. */
async function compared(tenant = "acme") {
  const id = `"${at.schema}".tenant_id('${tenant}')`;
  const { rows: stored } = await at.admin.query(
    `select span, start::float8, provider, model, adjustment, rows::float8, zero_cost_rows::float8 as zero, input::float8,
       output::float8, cache_read::float8, cache_write::float8, cache_write_1h::float8, reasoning::float8,
       total_tokens::float8, trim_scale(cost_input)::text as cost_input, trim_scale(cost_total)::text as cost_total
     from "${at.schema}".usage_sums where tenant_id = ${id} order by 1, 2, 3, 4, 5`,
  );
  const { rows: expected } = await at.admin.query(
    `select span, start::float8, provider, model, adjustment, rows::float8, zero::float8, input::float8, output::float8,
       cache_read::float8, cache_write::float8, cache_write_1h::float8, reasoning::float8, total_tokens::float8,
       trim_scale(cost_input)::text as cost_input, trim_scale(cost_total)::text as cost_total
     from (
       select span, (extract(epoch from date_trunc(span, to_timestamp(spent_at / 1000.0), 'UTC')) * 1000)::bigint as start,
         provider, model, adjustment, ${MEASURES}
       from "${at.schema}".usage_ledger, unnest(array['hour', 'day', 'month']) as span
       where tenant_id = ${id} group by 1, 2, 3, 4, 5) as s
     order by 1, 2, 3, 4, 5`,
  );
  return { stored, expected };
}

/** Rolls up once nothing on the server is older than what was committed: other tests use it too. */
async function rollUp(): Promise<number> {
  for (let settled = false; !settled; ) {
    const { rows: found } = await at.admin.query(
      `select "${at.schema}".ledger_horizon() > coalesce(max(position), 0) as settled from "${at.schema}".usage_ledger`,
    );
    settled = found[0].settled;
  }
  return rollUpNow();
}

function rollUpNow(): Promise<number> {
  return at.database.usage.rollUp({ tenant: "acme" }, context);
}

const spending = fc.record({
  at: fc
    .integer({ min: 0, max: 100 * 24 })
    .chain((hour) =>
      fc.integer({ min: 0, max: HOUR - 1 }).map((rest) => 1_764_000_000_000 + hour * HOUR + rest),
    ),
  model: fc.constantFrom("large", "small", "unknown", 'm"\\\n'),
  tokens: fc.integer({ min: -10, max: 1_000 }),
  cost: fc.constantFrom(0, 0.1, 1e-7, 123.456, -0.1),
  adjustment: fc.boolean(),
});

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("spend" as const),
      session: fc.nat(2),
      spent: fc.array(spending, { minLength: 1, maxLength: 8 }),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ kind: "roll up" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete" as const), session: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.constant({ kind: "rebuild" as const }) },
);

test("however usage comes, late, adjusted or gone with its session, the sums are those of the ledger", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      const sessions = new Map<number, Session>();
      for (const done of steps) {
        if (done.kind === "roll up") await rollUp();
        if (done.kind === "rebuild") await at.database.usage.rebuild({ tenant: "acme" }, context);
        if (done.kind === "spend") {
          const session = sessions.get(done.session) ?? (await repo.create({}, context));
          sessions.set(done.session, session);
          await commit(session, done.spent.map(usageRow));
        }
        const session = done.kind === "delete" ? sessions.get(done.session) : undefined;
        if (session !== undefined && done.kind === "delete") {
          sessions.delete(done.session);
          await session.close(context);
          await repo.delete(session.metadata, context);
        }
      }
      await rollUp();
      const { stored, expected } = await compared();
      expect(stored).toEqual(expected);
    }),
    { numRuns: 25 },
  );
});

test("a row whose commit is still under way is summed once it is there, and once", async () => {
  const session = await repo.create({}, context);
  await rollUp();
  const other = await at.admin.connect();
  try {
    // Has a lower position than what is committed meanwhile, and ends after it.
    await other.query("begin");
    await other.query(`insert into "${at.schema}".usage_ledger (tenant_id, session_id, usage_id, seq, timestamp, adjustment,
        input, output, cache_read, cache_write, total_tokens, cost_input, cost_output, cost_cache_read, cost_cache_write,
        cost_total, usage, provider, model, spent_at, entry_type, role, root_session_id, dimensions, position)
      values ("${at.schema}".tenant_id('acme'), '${session.metadata.id}', 'slow', 1000000, 0, false, 1, 0, 0, 0, 1, 0, 0, 0, 0, 7,
        '{}', 'p', 'slow', 0, 'unknown', 'unknown', '', '{}', "${at.schema}".ledger_position())`);
    await commit(session, [usageRow({ at: 1, model: "fast", tokens: 1, cost: 1, adjustment: false })]);
    expect(await rollUpNow()).toBe(0);
    await other.query("commit");
  } finally {
    other.release();
  }
  expect(await rollUp()).toBe(2);
  expect(await rollUp()).toBe(0);
  const { stored, expected } = await compared();
  expect(stored).toEqual(expected);
});

test("two who roll up at once, while others write and delete, add every row once", async () => {
  const writers = Array.from({ length: 4 }, async (_, writer) => {
    for (let round = 0; round < 10; round++) {
      const session = await repo.create({}, context);
      const spent = { at: writer, model: `w${writer}`, tokens: round, cost: 0.1, adjustment: false };
      await commit(session, [usageRow(spent), usageRow(spent)]);
      await session.close(context);
      if (round % 3 === 0) await repo.delete(session.metadata, context);
    }
  });
  const rollers = Array.from({ length: 2 }, async () => {
    for (let round = 0; round < 20; round++) await rollUpNow();
  });
  await Promise.all([...writers, ...rollers]);
  await rollUp();
  const { stored, expected } = await compared();
  expect(stored).toEqual(expected);
});

test("the owner rolls up all tenants, an application its own", async () => {
  await at.database.tenants.create({ slug: "other" });
  const session = await (await at.database.repo("other")).create({}, context);
  await commit(session, [usageRow({ at: 5, model: "m", tokens: 1, cost: 1, adjustment: false })]);
  await expect(at.database.usage.rollUp({}, context)).rejects.toMatchObject({ code: "database_permission" });
  await rollUp();
  expect(await at.owner.usage.rollUp({}, context)).toBeGreaterThanOrEqual(1);
  expect(await at.owner.usage.rollUp({}, context)).toBe(0);
  const { stored, expected } = await compared("other");
  expect(stored).toHaveLength(3);
  expect(stored).toEqual(expected);
});
