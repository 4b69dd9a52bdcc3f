import type { Compilable, CompiledQuery, Kysely } from "kysely";
import type { DB } from "./schema.generated.ts";
import type { SessionKey } from "./session-key.ts";

/** Stands for a parameter, or an element of one, while a statement is compiled. */
class Slot<TInput> {
  readonly read: (input: TInput) => unknown;

  constructor(read: (input: TInput) => unknown) {
    this.read = read;
  }

  /** In the text of a form. */
  toJSON(): string {
    return "?";
  }
}

/** Typed as what it stands for, since the builder only passes it on. */
export type SlotOf<TInput> = <T>(read: (input: TInput) => T) => T;

export function slotsOf<TInput>(): SlotOf<TInput> {
  return <T>(read: (input: TInput) => T) => new Slot(read) as unknown as T;
}

/** The session that a statement is about. */
export function sessionSlots<TInput>(slot: SlotOf<TInput>, keyOf: (input: TInput) => SessionKey): SessionKey {
  return {
    tenantId: slot((input) => keyOf(input).tenantId),
    sessionId: slot((input) => keyOf(input).sessionId),
  };
}

/** Callers may choose parts of a form, such as names, so there may be many. */
const MAX_FORMS = 200;

/**
 * Compiled statements that get their parameters later. Building a large one takes longer than all else that a call
 * does in this process, and there are few that differ in more than parameters.
 */
export class Templates<TInput, TRow> {
  readonly #compiled = new WeakMap<Kysely<DB>, Map<string, CompiledQuery<TRow>>>();

  /**
   * @param form all that the text depends on
   * @param build the statement, with slots for parameters; called once for each form
   */
  fill(db: Kysely<DB>, form: string, build: () => Compilable<TRow>, input: TInput): Compilable<TRow> {
    const template = this.#templateOf(db, form, build);
    const parameters = template.parameters.map((parameter) => filled(parameter, input));
    return { compile: () => ({ ...template, parameters }) };
  }

  #templateOf(db: Kysely<DB>, form: string, build: () => Compilable<TRow>): CompiledQuery<TRow> {
    const known = this.#compiled.get(db) ?? new Map<string, CompiledQuery<TRow>>();
    this.#compiled.set(db, known);
    const template = known.get(form) ?? (build().compile() as CompiledQuery<TRow>);
    const [oldest] = known.size < MAX_FORMS ? [] : known.keys();
    if (oldest !== undefined && !known.has(form)) known.delete(oldest);
    known.set(form, template);
    return template;
  }
}

function filled<TInput>(parameter: unknown, input: TInput): unknown {
  if (parameter instanceof Slot) return parameter.read(input);
  return Array.isArray(parameter) ? parameter.map((element) => filled(element, input)) : parameter;
}
