import type { Compilable, CompiledQuery } from "kysely";

/** Stands for a parameter while a statement is compiled, so that it can be compiled once and filled many times. */
export class Slot<TInput> {
  readonly read: (input: TInput) => unknown;

  constructor(read: (input: TInput) => unknown) {
    this.read = read;
  }
}

/** The statement with the parameters of an input. A parameter may be an array with slots in it. */
export function fill<TRow, TInput>(template: CompiledQuery<TRow>, input: TInput): Compilable<TRow> {
  const parameters = template.parameters.map((parameter) => filled(parameter, input));
  return { compile: () => ({ ...template, parameters }) };
}

function filled<TInput>(parameter: unknown, input: TInput): unknown {
  if (parameter instanceof Slot) return parameter.read(input);
  return Array.isArray(parameter) ? parameter.map((element) => filled(element, input)) : parameter;
}
