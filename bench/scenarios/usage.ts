import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { BACKGROUND_CONTEXT as context, type Database, openDatabase } from "../../src/index.ts";
import { type Contender, interleave } from "../measuring/rounds.ts";
import { lineOf, OURS } from "../report/compare.ts";
import type { Line } from "../report/line.ts";
import { fillLedger, MONTH } from "../usage/ledger.ts";
import { planOf } from "../usage/plan.ts";
import { spendBesideRollUps } from "../usage/spend.ts";
import type { Bench } from "./bench.ts";
import type { Findings } from "./scenario.ts";

export const USAGE = "Report who spent what";
export const BY_HAND = "SQL by hand over the rows";
export const BY_HAND_OVER_SUMS = "SQL by hand over the sums";

/** Reports over a large ledger against the fastest SQL over the same rows, and what the sums cost those who write. */
export async function measureUsage(bench: Bench): Promise<Findings> {
  const { isQuick } = bench.options;
  const size = isQuick ? { tenants: 20, rows: 100_000 } : { tenants: 1_000, rows: 10_000_000 };
  const { server } = bench;
  await fillLedger(server, size);
  await using stack = new AsyncDisposableStack();
  const open = async (connectionString: string) => {
    const database = await openDatabase({ connectionString });
    stack.defer(() => database.close());
    return database;
  };
  const owner = await open(server.ownerUrl);
  const start = performance.now();
  const summed = await owner.usage.rollUp({}, context);
  const seconds = (performance.now() - start) / 1_000;
  await server.query("vacuum (analyze) pi_sessions.usage_sums, pi_sessions.usage_tenants");
  const hand = new pg.Client(server.analystUrl);
  await hand.connect();
  stack.defer(() => hand.end());

  const rows = `${size.rows.toLocaleString("en")} rows, ${size.tenants.toLocaleString("en")} tenants`;
  const lines: Line[] = [];
  const compare = async (work: string, contenders: Contender[], rounds: number) => {
    for (const contender of contenders) await contender.sample(); // warm
    const samples = await interleave(contenders, { rounds });
    lines.push(lineOf({ section: USAGE, work: `${work}; ${rows}`, unit: "ms" }, samples));
  };
  const application = await open(server.applicationUrl);
  for (const timeZone of ["UTC", "Europe/Berlin", "Asia/Kolkata"]) {
    await compare(
      `a tenant's month by day and model, ${timeZone}`,
      [
        ofTenant(application, timeZone),
        byHand(hand, handWritten(timeZone)),
        // Other days than those of UTC are not among the sums.
        ...(timeZone === "UTC" ? [overSums(hand, HAND_WRITTEN_OVER_SUMS)] : []),
      ],
      isQuick ? 3 : 15,
    );
  }
  const analyst = await open(server.analystUrl);
  for (const timeZone of ["UTC", "Europe/Berlin"]) {
    await compare(
      `all tenants' month by tenant, ${timeZone}`,
      [ofAll(analyst, timeZone), byHand(hand, handWrittenForAll(timeZone))],
      isQuick ? 2 : 5,
    );
  }
  await writeFile(PLANS, await plansOf(server));
  lines.push(await spendBesideRollUps(bench, application, owner));
  const pace = Math.round(summed / seconds).toLocaleString("en");
  return {
    lines,
    notes: [
      `The first roll-up summed ${pace} rows per second.`,
      "How the server carries out the reports: bench/results/usage-plans.txt.",
    ],
  };
}

const PLANS = fileURLToPath(new URL("../results/usage-plans.txt", import.meta.url));

async function plansOf({ applicationUrl, analystUrl }: Bench["server"]): Promise<string> {
  const plans: string[] = [];
  for (const timeZone of ["UTC", "Europe/Berlin", "Asia/Kolkata"]) {
    const plan = await planOf(applicationUrl, { tenant: "t1", timeZone });
    plans.push(`a tenant's month by day and model, ${timeZone}\n\n${plan}\n`);
  }
  for (const timeZone of ["UTC", "Europe/Berlin"]) {
    plans.push(`all tenants' month by tenant, ${timeZone}\n\n${await planOf(analystUrl, { timeZone })}\n`);
  }
  return plans.join("\n");
}

function timed(name: string, work: () => Promise<unknown>): Contender {
  return {
    name,
    async sample() {
      const start = performance.now();
      await work();
      return performance.now() - start;
    },
  };
}

function ofTenant(database: Database, timeZone: string): Contender {
  const period = { from: "2026-11", to: "2026-12", timeZone };
  return timed(OURS, () => database.usage.report({ tenant: "t1", by: ["day", "model"], ...period }, context));
}

function ofAll(database: Database, timeZone: string): Contender {
  const period = { from: "2026-11", to: "2026-12", timeZone };
  return timed(OURS, () => database.usage.report({ by: ["tenant"], ...period }, context));
}

function byHand(client: pg.Client, text: string): Contender {
  return timed(BY_HAND, () => client.query({ name: text.slice(0, 60), text }));
}

function overSums(client: pg.Client, text: string): Contender {
  return { ...byHand(client, text), name: BY_HAND_OVER_SUMS };
}

const HAND_WRITTEN_OVER_SUMS = `/* sums */ select start / 86400000 as day, model, sum(rows), sum(input), sum(output),
    sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(reasoning), sum(total_tokens), sum(cost_input),
    sum(cost_output), sum(cost_cache_read), sum(cost_cache_write), sum(cost_total),
    sum(rows) filter (where adjustment), sum(cost_total) filter (where adjustment)
  from pi_sessions.usage_sums
  where tenant_id = pi_sessions.tenant_id('t1') and span = 'day' and start >= ${MONTH.from} and start < ${MONTH.to}
  group by 1, 2 order by 1, 2`;

const SUMS = `count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(cache_write_1h), sum(reasoning),
  sum(total_tokens), sum(cost_input), sum(cost_output), sum(cost_cache_read), sum(cost_cache_write), sum(cost_total),
  count(*) filter (where adjustment), sum(cost_total) filter (where adjustment)`;

/** The month as the time zone has it. */
function isInMonth(timeZone: string): string {
  const at = (ms: number) =>
    `(extract(epoch from timestamp '${new Date(ms).toISOString().slice(0, 19)}' at time zone '${timeZone}') * 1000)::bigint`;
  return `spent_at >= ${at(MONTH.from)} and spent_at < ${at(MONTH.to)}`;
}

/** In UTC, a division is faster than anything that knows time zones. */
function handWritten(timeZone: string): string {
  const day =
    timeZone === "UTC"
      ? "spent_at / 86400000"
      : `date_trunc('day', to_timestamp(spent_at / 1000.0), '${timeZone}')`;
  return `/* ${timeZone} */ select ${day} as day, model, ${SUMS} from pi_sessions.usage_ledger
    where tenant_id = pi_sessions.tenant_id('t1') and ${isInMonth(timeZone)} group by 1, 2 order by 1, 2`;
}

function handWrittenForAll(timeZone: string): string {
  return `/* all, ${timeZone} */ select tenant_id, ${SUMS} from pi_sessions.usage_ledger
    where ${isInMonth(timeZone)} group by 1 order by 1`;
}
