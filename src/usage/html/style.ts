import { Markup } from "./markup.ts";

/** Meant to stand out from what is behind them and from each other; who cannot tell them apart has the numbers in tables. */
const LIGHT = `
  --page: #f6f7f9; --card: #ffffff; --ink: #16191f; --soft: #5a6270; --rule: #e3e6eb; --grid: #e9ecf0;
  --hover: #eef1f5; --notice: #fff6df; --notice-rule: #d9a521;
  --s1: #2563c9; --s2: #d9700a; --s3: #0e8f76; --s4: #b8377c; --s5: #7a54d1; --s6: #8d7600; --s7: #1b87ab;
  --others: #7b8494;`;
const DARK = `
  --page: #0e1116; --card: #171b22; --ink: #e8ebf0; --soft: #a0a9b8; --rule: #2a303a; --grid: #262c35;
  --hover: #212732; --notice: #2b2412; --notice-rule: #b98a1c;
  --s1: #6ea2ff; --s2: #f79a4b; --s3: #3cc9a6; --s4: #f07fb8; --s5: #ab92f7; --s6: #d6b93c; --s7: #5fc6ea;
  --others: #8891a1;`;

/** Of the whole page. */
export const STYLE = new Markup(`
:root { color-scheme: light dark; ${LIGHT} }
@media screen and (prefers-color-scheme: dark) { :root { ${DARK} } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 2rem 1.25rem 3rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.02em; overflow-wrap: anywhere; }
h2 { margin: 0 0 1rem; font-size: 1rem; font-weight: 600; }
p { margin: 0.25rem 0 0; }
header { margin-bottom: 1.5rem; }
header p, footer { color: var(--soft); }
.zone::before { content: "·"; margin: 0 0.35em; }
code { font: 0.85em ui-monospace, "SF Mono", Menlo, Consolas, monospace; padding: 0.1em 0.4em; border: 1px solid var(--rule);
  border-radius: 5px; background: var(--card); color: var(--ink); overflow-wrap: anywhere; }
footer { margin-top: 2rem; font-size: 0.8rem; max-width: 46rem; }
.card, .tile { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
.card { margin-top: 1rem; padding: 1.25rem; min-width: 0; }
.empty { padding: 4rem 1.25rem; text-align: center; color: var(--soft); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 0 1rem; }
.totals { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem; margin: 0; }
.tile { padding: 1rem 1.25rem; min-width: 0; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; }
.value { font-size: 1.6rem; font-weight: 650; line-height: 1.3; letter-spacing: -0.02em; overflow-wrap: anywhere; }
.change { color: var(--soft); font-size: 0.8rem; }
.notice { margin-top: 1rem; padding: 0.7rem 1rem; border-left: 3px solid var(--notice-rule); border-radius: 6px;
  background: var(--notice); font-size: 0.9rem; }

.with-legend { display: grid; grid-template-columns: minmax(0, 1fr) minmax(15rem, 19rem); gap: 1rem 2rem; align-items: start; }
.plot { position: relative; padding: 0.5rem 0 1.6rem 3.6rem; }
.plot svg { display: block; width: 100%; height: 15rem; overflow: visible; }
.y { position: absolute; top: 0.5rem; left: 0; width: 3.1rem; height: 15rem; }
.x { position: relative; height: 0; }
.y span, .x span { position: absolute; color: var(--soft); font-size: 0.72rem; line-height: 1; white-space: nowrap; }
.y span { right: 0; transform: translateY(50%); }
.x span { top: 0.5rem; transform: translateX(-50%); }
.grid, .zero { fill: none; stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
.zero { stroke: var(--soft); }
.hit { fill: transparent; }
.column:hover .hit { fill: var(--hover); }
.column rect:not(.hit) { stroke: var(--card); stroke-width: 1; vector-effect: non-scaling-stroke; }
.line, .dot { fill: none; stroke: var(--s1); stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.dot { stroke-width: 6; stroke-linecap: round; }
.area { fill: var(--s1); opacity: 0.12; }

.legend { list-style: none; margin: 0; padding: 0; font-size: 0.85rem; }
.legend li { display: grid; grid-template-columns: 0.7rem minmax(0, 1fr) auto; gap: 0.6rem; align-items: baseline;
  padding: 0.35rem 0; border-bottom: 1px solid var(--rule); }
.legend li:last-child { border: 0; }
.wide { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0 2rem; }
.wide li { border: 0; }
.legend i { width: 0.7rem; height: 0.7rem; border-radius: 3px; }
.name { overflow-wrap: anywhere; }
.amount { white-space: nowrap; text-align: right; }
small { display: inline-block; min-width: 3.4rem; color: var(--soft); font-size: 1em; }
.parts { display: flex; height: 1.25rem; margin: 0.25rem 0 0.75rem; border-radius: 6px; overflow: hidden; background: var(--grid); gap: 1px; }
${seriesColors()}

.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--s1); outline-offset: 2px; border-radius: 4px; }
table { width: 100%; border-collapse: collapse; font-size: 0.85rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
th, td { padding: 0.45rem 0.6rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; font-weight: 400; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--soft); font-size: 0.78rem; vertical-align: bottom; }
thead th::first-letter { text-transform: uppercase; }
tbody th, td:not(.n) { min-width: 9rem; max-width: 24rem; overflow-wrap: anywhere; }
.n { text-align: right; white-space: nowrap; }
tfoot th, tfoot td { border-bottom: 0; font-weight: 600; }
tfoot th::first-letter { text-transform: uppercase; }
.none { color: var(--soft); font-style: italic; }
.bar { display: block; min-width: 6rem; }
.bar::after { content: ""; display: block; height: 4px; margin-top: 3px; border-radius: 2px;
  background: linear-gradient(to left, var(--s1) var(--share), var(--grid) var(--share)); }
tfoot .bar::after { display: none; }
details { margin-top: 1rem; }
summary { width: fit-content; cursor: pointer; color: var(--soft); font-size: 0.85rem; }
details .scroll { max-height: 24rem; overflow: auto; margin-top: 0.5rem; }

@media (max-width: 56rem) { .with-legend { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 36rem) {
  body { padding: 1.25rem 0.75rem 2rem; font-size: 14px; }
  .card { padding: 1rem; }
  .totals { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0.6rem; }
  .tile { padding: 0.75rem 0.9rem; }
  .tile:first-child { grid-column: 1 / -1; }
  .value { font-size: 1.3rem; }
  .minor { display: none; }
  tbody th, td:not(.n) { min-width: 6rem; }
  .plot svg, .y { height: 12rem; }
}
@media print {
  :root { color-scheme: light; font-size: 12px; }
  body { max-width: none; padding: 0; background: none; font-size: 11px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .card, .tile { break-inside: avoid; }
  .card:has(table) { break-inside: auto; }
  tr { break-inside: avoid; }
  details { display: none; }
  .scroll { overflow: visible; }
  .value { font-size: 1.25rem; }
  table { font-size: 9px; }
  th, td { padding: 0.3rem; }
  tbody th, td:not(.n) { min-width: 0; }
  thead .n { white-space: normal; }
}
`);

function seriesColors(): string {
  const classes = [...Array.from({ length: 7 }, (_, index) => `s${index + 1}`), "others"];
  return classes
    .map((name) => {
      const selector = name === "others" ? ".s-others" : `.${name}`;
      return `${selector} { fill: var(--${name}); background: var(--${name}); }`;
    })
    .join("\n");
}
