import type { UsageReport, UsageSums } from "../../postgres/usage-report.ts";
import { exactDecimal } from "../exact-decimal.ts";
import { digitsFor, dollars } from "../money.ts";
import { compactCount, count, percent } from "./format.ts";
import { html, type Markup } from "./markup.ts";

/** The sums of everything, each beside what it was in the period before. */
export function totals({ total }: UsageReport): Markup {
  const { previous } = total;
  const costDigits = digitsFor([total.cost.total]);
  const perCallDigits = digitsFor([total.costPerCall]);
  const change = (of: (sums: UsageSums) => number, show: (sums: UsageSums) => string) =>
    previous === undefined ? undefined : changeText(of(total), of(previous), show(previous));
  return html`<dl class="totals">
${tile(
  "Cost",
  dollars(total.cost.total, costDigits),
  change(
    ({ cost }) => Number(cost.total),
    ({ cost }) => dollars(cost.total, costDigits),
  ),
)}
${tile(
  "Calls",
  count(total.calls),
  change(
    ({ calls }) => calls,
    ({ calls }) => count(calls),
  ),
)}
${tile(
  "Tokens",
  compactCount(total.totalTokens),
  change(
    ({ totalTokens }) => totalTokens,
    ({ totalTokens }) => compactCount(totalTokens),
  ),
  `${count(total.totalTokens)} tokens`,
)}
${tile("Cache-hit ratio", percent(total.cacheHitRatio), pointsText(total, previous))}
${tile(
  "Cost per call",
  total.costPerCall === null ? "–" : dollars(total.costPerCall, perCallDigits),
  previous?.costPerCall == null
    ? undefined
    : change(
        ({ costPerCall }) => Number(costPerCall),
        ({ costPerCall }) => dollars(costPerCall ?? "0", perCallDigits),
      ),
)}
</dl>${notices(total)}`;
}

function tile(name: string, value: string, change: string | undefined, title = ""): Markup {
  const before = change === undefined ? undefined : html`<dd class="change">${change}</dd>`;
  return html`<div class="tile"><dt>${name}</dt><dd class="value" title="${title}">${value}</dd>${before}</div>`;
}

function changeText(now: number, before: number, shown: string): string {
  if (before === 0) return now === 0 ? "as before" : "nothing before";
  const change = (now - before) / Math.abs(before);
  if (Math.abs(change) < 0.0005) return `as before: ${shown}`;
  const size = Math.abs(change) >= 10 ? `${(now / before).toFixed(0)}×` : percent(Math.abs(change));
  return `${change > 0 ? "▲" : "▼"} ${size} from ${shown}`;
}

function pointsText({ cacheHitRatio }: UsageSums, previous: UsageSums | undefined): string | undefined {
  if (cacheHitRatio === null || previous === undefined || previous.cacheHitRatio === null) return undefined;
  const points = (cacheHitRatio - previous.cacheHitRatio) * 100;
  const before = percent(previous.cacheHitRatio);
  if (Math.abs(points) < 0.05) return `as before: ${before}`;
  return `${points > 0 ? "▲" : "▼"} ${Math.abs(points).toFixed(1)} points from ${before}`;
}

/** What one has to know to read the total rightly. */
function notices({ unpricedCalls, adjustments }: UsageSums): Markup {
  const unpriced =
    unpricedCalls === 0
      ? undefined
      : html`<p class="notice"><strong>${count(unpricedCalls)} unpriced ${unpricedCalls === 1 ? "call" : "calls"}.</strong> They used tokens and were recorded with a cost of zero, on models that cost something at other times: the real cost is higher.</p>`;
  const adjusted =
    adjustments.rows === 0
      ? undefined
      : html`<p class="notice">The cost is net of ${count(adjustments.rows)} ${adjustments.rows === 1 ? "adjustment" : "adjustments"} of ${dollars(adjustments.cost, digitsFor([adjustments.cost]))} in sum.</p>`;
  return html`${unpriced}${adjusted}`;
}

const PARTS = [
  { name: "input", of: ({ cost }: UsageSums) => cost.input },
  { name: "output", of: ({ cost }: UsageSums) => cost.output },
  { name: "cache read", of: ({ cost }: UsageSums) => cost.cacheRead },
  { name: "cache write", of: ({ cost }: UsageSums) => cost.cacheWrite },
] as const;

/** What kinds of tokens the money went to. */
export function costParts(total: UsageSums): Markup {
  const amounts = PARTS.map(({ of }) => of(total));
  const digits = digitsFor(amounts);
  const whole = amounts.reduce((sum, amount) => sum + Math.max(Number(amount), 0), 0);
  const share = (amount: string) => (whole === 0 ? 0 : Math.max(Number(amount), 0) / whole);
  const bar = amounts.map((amount, index) =>
    exactDecimal(amount).units > 0n
      ? html`<i class="s${index + 1}" style="width:${(share(amount) * 100).toFixed(2)}%"></i>`
      : undefined,
  );
  return html`<div class="parts" aria-hidden="true">${bar}</div>
<ol class="legend wide">${PARTS.map(
    ({ name, of }, index) =>
      html`<li><i class="s${index + 1}"></i><span class="name">${name}</span><span class="amount">${dollars(of(total), digits)} <small>${percent(share(of(total)))}</small></span></li>`,
  )}</ol>`;
}
