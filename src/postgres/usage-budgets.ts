import type { Context } from "../contract/context.ts";
import {
  type Budget,
  type BudgetPeriod,
  type BudgetStatus,
  budgetStatus,
  removeBudget,
  setBudget,
} from "./budgets.ts";
import type { Tenant } from "./tenant-id.ts";
import type { Tables } from "./transaction.ts";

/** Budgets of tenants, one for each period. Get it from `db.usage.budget`. */
export class Budgets {
  readonly #run: RunInTenant;

  /** @internal */
  constructor(run: RunInTenant) {
    this.#run = run;
  }

  /**
   * What the tenant may spend in a period; replaces the tenant's budget for it.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantNotFoundError
   * @example
   * await db.usage.budget.set("acme", { period: "month", amount: "250.00", timeZone: "Europe/Berlin" }, context);
   */
  set(tenant: string, budget: Budget, context: Context): Promise<void> {
    return this.#run(tenant, (tables, found) => setBudget(tables, found, budget, context));
  }

  /**
   * The tenant's budget for a period with what is spent, to the last row that is committed; `undefined` without one.
   *
   * @throws InvalidTextError, TenantNotFoundError
   */
  async get(tenant: string, period: BudgetPeriod, context: Context): Promise<BudgetStatus | undefined> {
    return (await this.list(tenant, context)).find((budget) => budget.period === period);
  }

  /**
   * The tenant's budgets with what is spent, the shortest period first.
   *
   * @throws InvalidTextError, TenantNotFoundError
   */
  list(tenant: string, context: Context): Promise<BudgetStatus[]> {
    return this.#run(tenant, (tables, found) => budgetStatus(tables, found, context));
  }

  /**
   * Takes a budget away; nothing happens without one.
   *
   * @throws InvalidTextError, InvalidOptionError, TenantNotFoundError
   */
  remove(tenant: string, period: BudgetPeriod, context: Context): Promise<void> {
    return this.#run(tenant, (tables, found) => removeBudget(tables, found, period, context));
  }
}

type RunInTenant = <T>(slug: string, work: (tables: Tables, tenant: Tenant) => Promise<T>) => Promise<T>;
