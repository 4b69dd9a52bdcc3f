import type { Compilable, CompiledQuery, Kysely } from "kysely";
import type { DB } from "./schema.generated.ts";

/** Stands for a parameter while a statement is compiled. */
class Slot<TInput> {
  readonly read: (input: TInput) => unknown;

  constructor(read: (input: TInput) => unknown) {
    this.read = read;
  }
}

/** Typed as what it stands for, since the builder only passes it on. */
export type SlotOf<TInput> = <T>(read: (input: TInput) => T) => T;

export function slotsOf<TInput>(): SlotOf<TInput> {
  return <T>(read: (input: TInput) => T) => new Slot(read) as unknown as T;
}

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
    const parameters = template.parameters.map((parameter) =>
      parameter instanceof Slot ? parameter.read(input) : parameter,
    );
    return { compile: () => ({ ...template, parameters }) };
  }

  #templateOf(db: Kysely<DB>, form: string, build: () => Compilable<TRow>): CompiledQuery<TRow> {
    const known = this.#compiled.get(db) ?? new Map<string, CompiledQuery<TRow>>();
    this.#compiled.set(db, known);
    const template = known.get(form) ?? (build().compile() as CompiledQuery<TRow>);
    known.set(form, template);
    return template;
  }
}
