import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { blocksOf, PAGES, ROOT } from "./pages.ts";

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
    await symlink(join(ROOT, "examples/archives"), join(directory, "sessions"));
    const env = { ...process.env, DATABASE_URL: inject("connectionString") };
    return (await promisify(execFile)(process.execPath, [file], { env, cwd: directory })).stdout;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const CONNECTION_STRING = `const connectionString = process.env["DATABASE_URL"] as string;`;

/** What a block that opens no database goes on from: docs/programs.md says so. */
const BEGINNING = `
import { BACKGROUND_CONTEXT as context, openDatabase } from "pi-session-postgres";
const db = await openDatabase({ connectionString });
await db.migrate();
const repo = await db.repo("default");
const session = await repo.create({ cwd: "/srv/app" }, context);
const main = await session.createBranch("main", null, context);`;

function programOf(block: string): string {
  if (/\bopen(Embedded)?Database\b/.test(block)) return `${CONNECTION_STRING}\n${block}`;
  return `${CONNECTION_STRING}\n${BEGINNING}\n${block}\nawait db.close();`;
}

const examples = (await readdir(join(ROOT, "examples"))).filter((file) => file.endsWith(".ts"));

test.each(examples)("the example %s runs", async (file) => {
  expect(await run(await readFile(join(ROOT, "examples", file), "utf8"))).not.toBe("");
});

const programs = (await Promise.all(PAGES.map((page) => blocksOf(page, "ts")))).flat();

test.each(programs)("the program in $page, line $line, runs", async ({ code }) => {
  await run(programOf(code));
});

test("the programs in the pages have types", async () => {
  const directory = await mkdtemp(join(ROOT, "examples/.types-"));
  try {
    for (const [index, { code }] of programs.entries())
      await writeFile(join(directory, `${index}.ts`), `${programOf(code)}\nexport {};\n`);
    const config = { extends: "../../tsconfig.json", include: ["*.ts"] };
    await writeFile(join(directory, "tsconfig.json"), JSON.stringify(config));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const compiled = promisify(execFile)(process.execPath, [compiler, "-p", directory]);
    const problems = await compiled.then(
      () => "",
      ({ stdout }: { stdout: string }) => stdout,
    );
    expect(problems).toBe("");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("README.md and the pages for programs and on tenants have programs", () => {
  const pages = new Set(programs.map(({ page }) => page));
  expect([...pages]).toEqual(expect.arrayContaining(["README.md", "docs/programs.md", "docs/tenants.md"]));
});
