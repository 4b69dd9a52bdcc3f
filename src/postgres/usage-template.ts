import type { Compilable, CompiledQuery, Kysely } from "kysely";
import type { DB } from "./schema.generated.ts";
import { fill, Slot } from "./slot.ts";
import type { Tables } from "./transaction.ts";
import { type Question, type ReportRow, reportStatement } from "./usage-statement.ts";

const templates = new WeakMap<Kysely<DB>, Map<string, CompiledQuery<ReportRow>>>();

/** Programs ask a few questions again and again; keys of dimensions are any text, so there may be many. */
const MAX_TEMPLATES = 100;

/** The statement of a report. Its text is long, so it is compiled once for all questions that differ in values only. */
export function reportQuery(
  tables: Pick<Tables, "db" | "schema">,
  question: Question,
): Compilable<ReportRow> {
  const { db } = tables;
  let known = templates.get(db);
  if (known === undefined) {
    known = new Map();
    templates.set(db, known);
  }
  const form = formOf(question);
  const name = JSON.stringify(form, (_, value) => (value instanceof Slot ? "?" : value));
  let template = known.get(name);
  if (template === undefined) {
    template = reportStatement(tables, form).compile(db);
    const [oldest] = known.size < MAX_TEMPLATES ? [] : known.keys();
    if (oldest !== undefined) known.delete(oldest);
    known.set(name, template);
  }
  return fill(template, question);
}

/** The question with a slot for each value. */
function formOf(question: Question): Question {
  const { tenant, period, where, top } = question;
  return {
    ...question,
    tenant:
      tenant === undefined
        ? undefined
        : { tenantId: slot(({ tenant: of }) => of?.tenantId), slug: slot(({ tenant: of }) => of?.slug) },
    period: {
      ...period,
      from: instantForm(period.from, ({ from }) => from),
      to: instantForm(period.to, ({ to }) => to),
      timeZone: slot(({ period: of }) => of.timeZone),
    },
    where: {
      ...filterForm(where as Values, (asked) => asked.where as Values),
      ...(where.dimensions === undefined
        ? {}
        : { dimensions: filterForm(where.dimensions, (asked) => asked.where.dimensions ?? {}) }),
    },
    top: top === undefined ? undefined : slot((asked) => asked.top),
  };
}

type Instant = Question["period"]["from"];
type Values = Readonly<Record<string, string | readonly string[]>>;

function instantForm(instant: Instant, of: (period: Question["period"]) => Instant): Instant {
  if (instant === undefined) return undefined;
  const read = (key: string) => slot<never>(({ period }) => (of(period) as Record<string, unknown>)[key]);
  return "at" in instant ? { at: read("at") } : { local: read("local") };
}

function filterForm(values: Values, of: (question: Question) => Values): Values {
  const lists = Object.entries(values).filter(([key]) => key !== "dimensions");
  return Object.fromEntries(
    lists.map(([key, list]) => [
      key,
      [list].flat().map((_, index) => slot<string>((asked) => [of(asked)[key]].flat()[index])),
    ]),
  );
}

/** Typed as what it stands for, since it is only passed on. */
function slot<T>(read: (question: Question) => unknown): T {
  return new Slot(read) as unknown as T;
}
