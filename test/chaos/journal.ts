import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

/** What a writer tries: everything that it leaves bears the token, which no other attempt has. */
export interface Attempt {
  readonly token: string;
  readonly session: string;
  readonly kind: Kind;
}

/**
 * `append`: a message on the branch `main`. `commit`: an entry, a usage row, a value and a list element in one commit.
 * `count`: reads a number and commits the next one with an entry that says it. `increment`: the same without an entry.
 * `branch`: a new branch.
 */
export type Kind = "append" | "commit" | "count" | "increment" | "branch";
export const KINDS: readonly Kind[] = ["append", "commit", "count", "increment", "branch"];

/** What a commit was acknowledged with, as far as the writer was told. */
export interface Acknowledged {
  readonly entry?: { id: string; seq?: number };
  readonly usage?: { id: string; seq: number };
  readonly element?: { seq: number };
}

export type Outcome =
  | { is: "acknowledged"; what: Acknowledged }
  /** By an error that says that nothing was committed, or by the signal of the caller. */
  | { is: "refused"; code: string }
  /** By an error that says that nobody knows, or because the writer was killed. */
  | { is: "unknown"; code: string };

type Line = { try: Attempt } | { token: string; outcome: Outcome };

/** A writer's own file. What is acknowledged is on the disk before the writer goes on. */
export class Journal {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  tries(attempt: Attempt): void {
    this.#write({ try: attempt });
  }

  ends(token: string, outcome: Outcome): void {
    this.#write({ token, outcome });
    fsyncSync(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(line: Line): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

export interface Tried extends Attempt {
  /** In the order of the writer. */
  readonly outcome: Outcome;
}

/** All attempts of a writer, whose end may have come between any two lines. */
export function readJournal(path: string): Tried[] {
  if (!existsSync(path)) return [];
  const tried = new Map<string, Tried>();
  for (const text of readFileSync(path, "utf8").split("\n").slice(0, -1)) {
    const line = JSON.parse(text) as Line;
    if ("try" in line) tried.set(line.try.token, { ...line.try, outcome: { is: "unknown", code: "killed" } });
    else tried.set(line.token, { ...(tried.get(line.token) as Tried), outcome: line.outcome });
  }
  return [...tried.values()];
}
