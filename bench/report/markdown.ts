import type { Goal } from "./goals.ts";
import type { AppendCost, Growth, Line, Unit } from "./line.ts";
import type { Results } from "./results.ts";

/** All tables of a run. */
export function markdownOf(results: Results): string {
  const { machine, lines, growth, appendCosts, notes, goals } = results;
  const sections = Map.groupBy(lines, ({ section }) => section);
  return [
    Object.entries(machine)
      .map(([what, value]) => `- ${what}: ${value}`)
      .join("\n"),
    ...notes.map((note) => `> ${note}`),
    ...[...sections].map(([section, ofSection]) => `### ${section}\n\n${comparison(ofSection)}`),
    ...(appendCosts.length === 0
      ? []
      : [
          `### What an append costs beside time

${costTable(appendCosts)}`,
        ]),
    ...(growth.length === 0 ? [] : [`### Growth with the session\n\n${growthTable(growth)}`]),
    ...(goals.length === 0 ? [] : [`### Goals\n\n${goalTable(goals)}`]),
    "",
  ].join("\n\n");
}

/** One row per work, or, with a single work, one per contender, since there are many of them then. */
function comparison(lines: readonly Line[]): string {
  const names = lines[0]?.others.map(({ name }) => name) ?? [];
  const [first] = lines;
  if (first === undefined) return "";
  if (names.length > lines.length) {
    return table(
      ["", ...lines.map(({ work }) => work)],
      [
        ["pi-session-postgres", ...lines.map(({ ours, unit }) => quantity(ours.median, unit))],
        ...names.map((name) => [name, ...lines.map((line) => otherCell(line, name))]),
      ],
    );
  }
  return table(
    ["", "pi-session-postgres", ...names],
    lines.map((line) => [
      line.work,
      quantity(line.ours.median, line.unit),
      ...names.map((name) => otherCell(line, name)),
    ]),
  );
}

function otherCell({ others, unit }: Line, name: string): string {
  const other = others.find((each) => each.name === name);
  if (other === undefined) return "–";
  return `${quantity(other.median, unit)} (${digits(other.ratio)}×)`;
}

/** Turned round: many numbers of few widths. */
function costTable(costs: readonly AppendCost[]): string {
  const row = (what: string, cell: (cost: AppendCost) => string) => [what, ...costs.map(cell)];
  const ms = (value: number | undefined) => (value === undefined ? "–" : quantity(value, "ms"));
  const percent = (share: number | undefined) => (share === undefined ? "–" : `${digits(share * 100)} %`);
  return table(
    ["", ...costs.map(({ connections }) => `${connections} connection${connections === 1 ? "" : "s"}`)],
    [
      row("processor time of our process", ({ clientCpuMs }) => ms(clientCpuMs)),
      row("processor time of the server, for us", ({ serverCpuMs }) => ms(serverCpuMs)),
      row("processor time of the server, for pgbench", ({ pgbenchServerCpuMs }) => ms(pgbenchServerCpuMs)),
      row("repeated after a serialization failure", ({ repeats }) => percent(repeats)),
      row("the same, pgbench", ({ pgbenchRepeats }) => percent(pgbenchRepeats)),
      row("repeated, in sessions that have just begun", ({ repeatsInNew }) => percent(repeatsInNew)),
      row("appends to sessions that have just begun", ({ perSecondInNew }) =>
        perSecondInNew === undefined ? "–" : quantity(perSecondInNew, "per second"),
      ),
    ],
  );
}

function growthTable(growth: readonly Growth[]): string {
  const sizes = growth[0]?.sizes ?? [];
  return table(
    ["", ...sizes.map(({ entries }) => `${entries.toLocaleString("en")} entries`), "last of first"],
    growth.map(({ work, sizes: measured }) => [
      work,
      ...measured.map(({ ms }) => quantity(ms, "ms")),
      `${digits((measured.at(-1)?.ms ?? Number.NaN) / (measured[0]?.ms ?? Number.NaN))}×`,
    ]),
  );
}

/** Of what was measured: `--only` leaves most of it out. */
function goalTable(goals: readonly Goal[]): string {
  const rows = goals.flatMap(({ text, goal, ratio }) =>
    ratio === undefined
      ? []
      : [[text, `${goal}×`, `${digits(ratio)}×`, ratio >= goal ? "reached" : "missed"]],
  );
  return table(["", "goal", "measured", ""], rows);
}

function quantity(value: number, unit: Unit): string {
  switch (unit) {
    case "per second":
      return `${Math.round(value).toLocaleString("en")}/s`;
    case "MiB":
      return `${digits(value)} MiB`;
    case "ms":
      return value < 0.1 ? `${digits(value * 1_000)} µs` : `${digits(value)} ms`;
  }
}

/** Three digits that count, and no exponent. */
function digits(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(2 + Number(Math.abs(value) >= 1))));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, column) => (column === 0 ? "---" : "---:"))), ...rows.map(line)].join(
    "\n",
  );
}
