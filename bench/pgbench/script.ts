import type { CapturedAppend } from "../worker/operations.ts";

/** Entry ids as pgbench makes them: as long as a UUID, behind all real ones, and they end in a number. */
const ID_PREFIX = "ffffffff-0000-7000-8000-";
const FIRST_ID = 100_000_000_000;

/** What pgbench's sessions have at their tip when it begins. */
export const FIRST_ENTRY_ID = `${ID_PREFIX}${FIRST_ID}`;

export interface PgbenchScript {
  readonly text: string;
  /** Values of its variables, for `--define`. */
  readonly variables: Readonly<Record<string, string>>;
}

/** A value that changes from append to append by the same step, or does not change. */
interface Counter {
  readonly value: number;
  readonly step: number;
}

/**
 * Turns what this package sends for an append into a script that appends again and again: the same statements, with
 * parameters of the same size, in one round trip.
 *
 * pgbench can count, but neither make texts nor send a null. So a text that contains an id is put together in the
 * statement (`'…' || :id || '…'`), and null is written out.
 *
 * @param appends the first two to a session like those that pgbench appends to
 */
export function pgbenchScript([before, after]: readonly [CapturedAppend, CapturedAppend]): PgbenchScript {
  const variables: Record<string, string> = { n: "0" };
  const settings: string[] = [];
  const statements = after.statements.map(({ sql, parameters }, index) => {
    if (parameters === undefined) return sql;
    const earlier = before.statements[index]?.parameters ?? [];
    const expressions = parameters.map((parameter, at) =>
      expressionOf({
        name: `p${index}_${at + 1}`,
        parameter,
        earlier: earlier[at] ?? null,
        append: after,
        variables,
        settings,
      }),
    );
    return sql.replaceAll(/\$(\d+)/g, (_whole, number) => expressions[Number(number) - 1] ?? "null");
  });
  const text = [
    "\\set session :first_session + :client_id",
    `\\set tip ${FIRST_ID} + :n`,
    "\\set id :tip + 1",
    ...settings,
    "\\startpipeline",
    ...statements.map((statement) => `${statement};`),
    "\\endpipeline",
    // Last, so that a transaction that is repeated is the same again.
    "\\set n :n + 1",
    "",
  ].join("\n");
  return { text, variables };
}

interface Parameter {
  readonly name: string;
  readonly parameter: string | null;
  /** The same one in the append before. */
  readonly earlier: string | null;
  readonly append: CapturedAppend;
  readonly variables: Record<string, string>;
  readonly settings: string[];
}

function expressionOf({ name, parameter, earlier, append, variables, settings }: Parameter): string {
  if (parameter === null) return "null";
  if (parameter === append.sessionId) return ":session";
  for (const [id, variable] of [
    [append.entryId, "id"],
    [append.parentId, "tip"],
  ] as const) {
    if (parameter.includes(id)) return concatenation(parameter.split(id), ID_PREFIX, variable);
  }
  const counter = counterOf(parameter, earlier);
  if (counter === undefined || counter.step === 0) {
    variables[name] = parameter;
    return `:${name}`;
  }
  // The captured append was the second of its session.
  settings.push(`\\set ${name} ${counter.value - counter.step} + :n * ${counter.step}`);
  return parameter.startsWith("{")
    ? concatenation(parameter.split(String(counter.value)), "", name)
    : `:${name}`;
}

function concatenation([before = "", after = ""]: string[], prefix: string, variable: string): string {
  return `(${quoted(before + prefix)} || :${variable}::text || ${quoted(after)})`;
}

/** A number, or an array of one, that is no point in time. */
function counterOf(parameter: string, earlier: string | null): Counter | undefined {
  const [value, previous] = [parameter, earlier].map((text) => {
    const digits = /^(?:\{"?)?(\d{1,9})(?:"?\})?$/.exec(text ?? "")?.[1];
    return digits === undefined ? undefined : Number(digits);
  });
  if (value === undefined || previous === undefined) return undefined;
  return { value, step: value - previous };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
