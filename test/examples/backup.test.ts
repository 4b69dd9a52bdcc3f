/** What docs/operators.md says about backups, tried with the `pg_dump` of the server's own version. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { openEmbeddedDatabase } from "../../src/embedded/index.ts";
import { BACKGROUND_CONTEXT as context, type Database, openDatabase } from "../../src/index.ts";
import { type ChaosServer, startChaosServer } from "../chaos/server.ts";
import { openTestDatabase } from "../support/database.ts";

const BINARIES = process.env["POSTGRES_15_BIN"] ?? "/usr/lib/postgresql/15/bin";
const PROGRAMS = ["postgres", "initdb", "pg_dump", "psql"];

/** The embedded server comes without `pg_dump`, so that an installed PostgreSQL has to be there. */
const missing = PROGRAMS.filter((program) => !existsSync(join(BINARIES, program)));
const reason = missing.length === 0 ? "" : `, skipped: POSTGRES_15_BIN has no ${missing.join(", ")}`;

const ROLES = { owner: "", reader: "bypassrls", app: "" };
const GRANTS = { applicationRoles: ["app"], analystRoles: ["bi"] };

describe.skipIf(missing.length > 0)(`a backup${reason}`, () => {
  let directory: string;
  let server: ChaosServer;
  let owner: Database;

  const urlOf = (role: keyof typeof ROLES | "postgres", database = "postgres") => {
    const url = new URL(server.connectionString);
    url.pathname = database;
    if (role !== "postgres") Object.assign(url, { username: role, password: "secret" });
    return url.href;
  };
  const query = async (text: string, connectionString = urlOf("postgres")) => {
    const client = new Client({ connectionString });
    await client.connect();
    return await client.query(text).finally(() => client.end());
  };
  const program = (name: string, ...args: string[]) => promisify(execFile)(join(BINARIES, name), args);
  const dump = (role: keyof typeof ROLES | "postgres", file: string) =>
    program("pg_dump", "--schema=pi_sessions", `--file=${join(directory, file)}`, urlOf(role, "agents"));

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "pi-sessions-backup-"));
    server = await startChaosServer(join(directory, "data"), BINARIES);
    for (const [role, attributes] of Object.entries(ROLES))
      await query(`create role ${role} login password 'secret' ${attributes}`);
    await query("create role bi");
    await query("grant pg_read_all_data to reader");
    await query("create database agents owner owner");
    owner = await openDatabase({ connectionString: urlOf("owner", "agents") });
    await owner.migrate(GRANTS);
    await owner.tenants.create({ slug: "acme", limits: { sessions: 10, storedBytes: 1_000_000 } });
    for (const tenant of ["default", "acme"]) {
      const repo = await owner.repo(tenant);
      const session = await repo.create({ id: `of ${tenant}`, metadata: { user: tenant } }, context);
      const main = await session.createBranch("main", null, context);
      await main.appendMessage(
        { role: "user", content: "a NUL: \0, half a pair: \ud800", timestamp: 1 },
        context,
      );
      await session.appendList({ namespace: "log", key: "", kind: "list" }, 1, context);
      await (await repo.fork({ id: `of ${tenant}` }, { scope: "tree" }, context)).close(context);
    }
  }, 120_000);
  afterAll(async () => {
    await owner?.close();
    await server?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  test.each(["owner", "app"] as const)(
    "as the role %s is refused, since row-level security binds it",
    async (role) => {
      await expect(dump(role, "refused.sql")).rejects.toThrow("row-level security");
    },
  );

  test.each([
    ["postgres", "postgres"],
    ["reader", "owner"],
  ] as const)("that %s dumps and %s restores holds everything", async (dumper, restorer) => {
    await dump(dumper, `${dumper}.sql`);
    const database = `restored_by_${restorer}`;
    await query(`create database ${database} owner owner`);
    await program(
      "psql",
      "-qv",
      "ON_ERROR_STOP=1",
      "-f",
      join(directory, `${dumper}.sql`),
      urlOf(restorer, database),
    );

    const restored = await openDatabase({ connectionString: urlOf("owner", database) });
    expect(await restored.migrate(GRANTS)).toEqual([]);
    const app = await openDatabase({ connectionString: urlOf("app", database) });
    try {
      for (const tenant of ["default", "acme"]) {
        expect(await contentOf(await app.repo(tenant))).toEqual(await contentOf(await owner.repo(tenant)));
        const repo = await restored.repo(tenant);
        expect(await repo.verify({}, context)).toEqual({ sessions: 2, findings: 0, repaired: 0 });
      }
      expect(await restored.tenants.list()).toEqual(await owner.tenants.list());
      expect(await app.checkIsolation("acme")).toMatchObject({ isBound: true, leaks: [] });
      const session = await (await app.repo("acme")).open({ id: "of acme" }, context);
      expect(await (await session.branch("main", context))?.appendCustomEntry("note", 1, context)).toBeTypeOf(
        "string",
      );
    } finally {
      await app.close();
      await restored.close();
    }
  });

  test("names roles and does not create them", async () => {
    await dump("postgres", "roles.sql");
    const text = await readFile(join(directory, "roles.sql"), "utf8");
    expect(text).toMatch(/^GRANT .* TO app;$/m);
    expect(text).not.toMatch(/^CREATE ROLE/m);
  });
});

test("what pg_dump begins with is refused by the server of all tests too", async () => {
  await using at = await openTestDatabase();
  const role = inject("application").role;
  const dumpAs = async (user: string) => {
    const client = new Client({ connectionString: at.ownerConnectionString });
    await client.connect();
    const text = `set role ${user}; set row_security = off; select from "${at.schema}".entries`;
    await client.query(text).finally(() => client.end());
  };
  await expect(dumpAs(role)).rejects.toThrow("row-level security");
  await expect(dumpAs("none")).resolves.toBeUndefined();
});

test("a copy of an embedded server's data directory holds everything", async () => {
  const directory = await mkdtemp(join(tmpdir(), "pi-sessions-copy-"));
  const contentIn = async (
    dataDir: string,
    work: (database: Database) => Promise<unknown> = async () => {},
  ) => {
    const database = await openEmbeddedDatabase({ dataDir: join(directory, dataDir) });
    try {
      await work(database);
      return await contentOf(await database.repo("default"));
    } finally {
      await database.close();
    }
  };
  try {
    const content = await contentIn("data", async (database) => {
      await database.migrate();
      const session = await (await database.repo("default")).create({ id: "s" }, context);
      const main = await session.createBranch("main", null, context);
      await main.appendCustomEntry("note", 1, context);
    });
    expect(content).toMatchObject([{ entries: [{ type: "custom" }] }]);
    await promisify(execFile)("cp", ["-a", join(directory, "data"), join(directory, "backup")]);
    await rm(join(directory, "data"), { recursive: true });
    expect(await contentIn("backup")).toEqual(content);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

async function contentOf(repo: Awaited<ReturnType<Database["repo"]>>) {
  const summaries = await repo.summarize(undefined, context);
  return Promise.all(
    summaries.map(async (summary) => {
      const storage = await repo.openStorage(summary.metadata, context);
      try {
        const entries = await storage.scanEntries({}, context);
        return {
          ...summary,
          entries,
          log: await storage.readList({ namespace: "log", key: "", kind: "list" }, {}, context),
        };
      } finally {
        await storage.close(context);
      }
    }),
  );
}
