import type { Compilable } from "kysely";
import { slotsOf, Templates } from "./template.ts";
import type { Tables } from "./transaction.ts";
import { type Question, type ReportRow, reportStatement } from "./usage-statement.ts";

const templates = new Templates<Question, ReportRow>();
const slot = slotsOf<Question>();

/** The statement of a report. Its text is long, so it is compiled once for all questions that differ in values only. */
export function reportQuery(
  tables: Pick<Tables, "db" | "schema">,
  question: Question,
): Compilable<ReportRow> {
  const { db } = tables;
  const form = formOf(question);
  const build = () => ({ compile: () => reportStatement(tables, form).compile(db) });
  return templates.fill(db, JSON.stringify(form), build, question);
}

/** The question with a slot for each value. */
function formOf(question: Question): Question {
  const { tenant, period, top } = question;
  const { dimensions, ...columns } = question.where;
  return {
    ...question,
    tenant:
      tenant === undefined
        ? undefined
        : {
            tenantId: slot(({ tenant: of }) => of?.tenantId ?? ""),
            slug: slot(({ tenant: of }) => of?.slug ?? ""),
          },
    period: {
      ...period,
      from: instantForm(period.from, ({ from }) => from),
      to: instantForm(period.to, ({ to }) => to),
      timeZone: slot(({ period: of }) => of.timeZone),
    },
    where: {
      ...filterForm(columns, (asked) => asked.where as Values),
      ...(dimensions === undefined
        ? {}
        : { dimensions: filterForm(dimensions, (asked) => asked.where.dimensions ?? {}) }),
    },
    top: top === undefined ? undefined : slot((asked) => asked.top),
  };
}

type Instant = Question["period"]["from"];
type Values = Readonly<Record<string, string | readonly string[]>>;

function instantForm(instant: Instant, of: (period: Question["period"]) => Instant): Instant {
  if (instant === undefined) return undefined;
  const read = (key: string) =>
    slot(({ period }) => (of(period) as unknown as Record<string, never>)[key] as never);
  return "at" in instant ? { at: read("at") } : { local: read("local") };
}

function filterForm(values: Values, of: (question: Question) => Values): Values {
  return Object.fromEntries(
    Object.entries(values).map(([key, list]) => [
      key,
      [list].flat().map((_, index) => slot((asked) => [of(asked)[key]].flat()[index] as string)),
    ]),
  );
}
