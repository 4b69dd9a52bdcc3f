import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A directory for files of one test; gone when disposed. */
export interface Scratch extends AsyncDisposable {
  readonly path: string;
  /** @returns the path of the new file */
  write(name: string, content: string | Uint8Array): Promise<string>;
}

export async function scratch(): Promise<Scratch> {
  const path = await mkdtemp(join(tmpdir(), "pi-archives-"));
  return {
    path,
    write: async (name, content) => {
      const file = join(path, name);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, content);
      return file;
    },
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

/** Lines of JSON, each ended by a line feed. Strings stand as they are. */
export function jsonl(...lines: unknown[]): string {
  return lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");
}
