import { type RawBuilder, sql } from "kysely";
import { BACKGROUND_CONTEXT, type Context } from "../contract/context.ts";
import { InvalidOptionError } from "../contract/errors.ts";
import { TenantNotFoundError } from "./errors.ts";
import type { Tenant } from "./tenant-id.ts";
import { read, readCommitted, type Tables, type Transaction, write } from "./transaction.ts";
import { serverTimeZone } from "./usage-period.ts";

/** A period that a budget is for: a calendar day, a week from Monday, or a calendar month. */
export type BudgetPeriod = "day" | "week" | "month";

/** What a tenant may spend in a period. */
export interface Budget {
  /** A tenant has one budget for each. */
  period: BudgetPeriod;
  /** US dollars from 0: a number, or the text of a decimal with up to 12 places. */
  amount: number | string;
  /** Where the period begins, an IANA name. Default `UTC`. */
  timeZone?: string;
  /**
   * Whether commits that add entries without usage are refused once it is spent, so that no new work begins. What was
   * spent is recorded in any case. Default false.
   */
  isHard?: boolean;
}

/** A budget, and how much of it is spent. */
export interface BudgetStatus {
  /** The period that the budget is for. */
  period: BudgetPeriod;
  /** Where the period begins. */
  timeZone: string;
  /** Whether it stops new work once it is spent. */
  isHard: boolean;
  /** Beginning of the current period, in milliseconds since the epoch. */
  from: number;
  /** End of the current period, exclusive, in milliseconds since the epoch. */
  to: number;
  /** US dollars, an exact decimal. */
  amount: string;
  /** US dollars spent in the current period, an exact decimal. */
  spent: string;
  /** US dollars at the end of the period if it goes on like that, rounded to 12 places. */
  projected: string;
  /** US dollars that are left, an exact decimal; negative if more was spent. */
  remaining: string;
}

const PERIODS: readonly unknown[] = ["day", "week", "month"] satisfies BudgetPeriod[];

/** @throws TenantNotFoundError */
export async function budgetStatus(
  tables: Tables,
  tenant: Tenant,
  context: Context,
): Promise<BudgetStatus[]> {
  const rows = await read(
    tables,
    context,
    () => sql<BudgetRow>`
      select b.period, b.time_zone, b.hard, b.period_start, b.period_end, trim_scale(b.amount)::text as amount,
        trim_scale(b.spent)::text as spent, trim_scale(b.projected)::text as projected,
        trim_scale(b.amount - b.spent)::text as remaining
      from ${sql.id(tables.schema, "tenants")} as t
      left join lateral ${sql.id(tables.schema, "budget_status")}(t.tenant_id) as b on true
      where t.tenant_id = ${tenant.tenantId}
      order by b.period_end - b.period_start`,
    { plans: "sorted" },
  );
  if (rows.length === 0) throw new TenantNotFoundError(tenant.slug);
  return rows.filter(({ period }) => period !== null).map(statusOf);
}

interface BudgetRow {
  period: BudgetPeriod | null;
  time_zone: string;
  hard: boolean;
  period_start: number;
  period_end: number;
  amount: string;
  spent: string;
  projected: string;
  remaining: string;
}

function statusOf(row: BudgetRow): BudgetStatus {
  const { amount, spent, projected, remaining } = row;
  return {
    period: row.period as BudgetPeriod,
    timeZone: row.time_zone,
    isHard: row.hard,
    from: row.period_start,
    to: row.period_end,
    amount,
    spent,
    projected,
    remaining,
  };
}

/** @throws InvalidOptionError, TenantNotFoundError */
export async function setBudget(
  tables: Tables,
  tenant: Tenant,
  budget: Budget,
  context: Context,
): Promise<void> {
  const { period, timeZone = "UTC", isHard = false } = budget;
  const amount = amountOf(budget.amount);
  assertPeriod(period);
  const zone = serverTimeZone(timeZone);
  if (typeof isHard !== "boolean") throw new InvalidOptionError("isHard", isHard, "pass true or false");
  await change(
    tables,
    tenant,
    context,
    (known) =>
      sql`
      insert into ${sql.id(tables.schema, "budgets")} as b (tenant_id, period, time_zone, amount, hard)
      select t.tenant_id, ${period}, ${zone}, ${amount}::numeric, ${isHard} from ${known} as t
      where t.tenant_id = ${tenant.tenantId}
      on conflict (tenant_id, period) do update
      set time_zone = excluded.time_zone, amount = excluded.amount, hard = excluded.hard`,
  );
}

/** @throws InvalidOptionError, TenantNotFoundError */
export async function removeBudget(
  tables: Tables,
  tenant: Tenant,
  period: BudgetPeriod,
  context: Context,
): Promise<void> {
  assertPeriod(period);
  await change(
    tables,
    tenant,
    context,
    () => sql`
    delete from ${sql.id(tables.schema, "budgets")} as b
    where b.tenant_id = ${tenant.tenantId} and b.period = ${period}`,
  );
}

async function change(
  tables: Tables,
  tenant: Tenant,
  context: Context,
  statement: (tenants: RawBuilder<unknown>) => RawBuilder<unknown>,
): Promise<void> {
  const tenants = sql`${sql.id(tables.schema, "tenants")}`;
  const work = (trx: Transaction) =>
    trx.commitWith(
      sql`select t.tenant_id from ${tenants} as t where t.tenant_id = ${tenant.tenantId}`,
      statement(tenants),
      check(tables, tenant.tenantId),
    );
  const [found] = await readCommitted(tables, context, work, { isRepeatable: true });
  if (found.length === 0) throw new TenantNotFoundError(tenant.slug);
}

/**
 * After something was spent in a tenant that has hard budgets. That is on record, and whoever recorded it must not hear
 * of a failure and do so again: a check that fails is left to the next one.
 */
export async function checkBudgets(tables: Tables, tenantId: string): Promise<void> {
  const statement = () => check(tables, tenantId);
  await write(tables, BACKGROUND_CONTEXT, statement, { isRepeatable: true }).catch(() => {});
}

function check({ schema }: Tables, tenantId: string): RawBuilder<unknown> {
  return sql`select ${sql.id(schema, "check_budgets")}(${tenantId})`;
}

/** @throws InvalidOptionError */
function assertPeriod(period: unknown): void {
  if (!PERIODS.includes(period)) throw new InvalidOptionError("period", period, "pass day, week or month");
}

/** @throws InvalidOptionError */
function amountOf(amount: number | string): string {
  const text = typeof amount === "number" && amount >= 1e-12 ? amount.toFixed(12) : String(amount);
  if ((typeof amount !== "number" && typeof amount !== "string") || !/^\d{1,15}(\.\d{1,12})?$/.test(text)) {
    throw new InvalidOptionError(
      "amount",
      JSON.stringify(amount),
      "pass US dollars from 0, a number or a decimal with up to 12 places",
    );
  }
  return text;
}
