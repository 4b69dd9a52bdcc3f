import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";

const ROOT = new URL("../../", import.meta.url).pathname;

/** The package by name, as a program imports it, and where its sources are. */
const ENTRIES = {
  "pi-session-postgres": join(ROOT, "src/index.ts"),
  "pi-session-postgres/embedded": join(ROOT, "src/embedded/index.ts"),
};

/** Runs a program as a user's, except that the package is taken from its sources. Returns what it prints. */
async function run(program: string): Promise<string> {
  // Below the examples, so that other packages are found as they are there.
  const directory = await mkdtemp(join(ROOT, "examples/.run-"));
  try {
    let source = program;
    for (const [name, path] of Object.entries(ENTRIES))
      source = source.replaceAll(`"${name}"`, JSON.stringify(path));
    const file = join(directory, "program.ts");
    await writeFile(file, source);
    const env = { ...process.env, DATABASE_URL: inject("connectionString") };
    return (await promisify(execFile)(process.execPath, [file], { env, cwd: directory })).stdout;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const examples = (await readdir(join(ROOT, "examples"))).filter((file) => file.endsWith(".ts"));

test.each(examples)("the example %s runs", async (file) => {
  expect(await run(await readFile(join(ROOT, "examples", file), "utf8"))).not.toBe("");
});

test.each(["README.md", "docs/programs.md", "docs/tenants.md"])("the programs in %s run", async (page) => {
  const text = await readFile(join(ROOT, page), "utf8");
  const programs = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program]) => program ?? "");
  expect(programs.length).toBeGreaterThan(0);
  for (const program of programs) {
    await run(`const connectionString = process.env.DATABASE_URL as string;\n${program}`);
  }
});
