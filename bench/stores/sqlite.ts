import { copyFile, mkdir, realpath, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { sessionRepoBenchmarkSessionId } from "@earendil-works/pi-agent-core/harness/session/testing";
import { createNodeSqliteFactory, SqliteSessionRepo } from "@earendil-works/pi-session-backend-sqlite-node";
import { groupsOf, type SessionStore, storageInside } from "./session-store.ts";

/** pi's `SqliteSessionRepo`: one file per session (its default), or all sessions of a group in one file. */
export function openSqliteStore(directory: string, { shared }: { shared: boolean }): SessionStore {
  return {
    group: groupsOf(async (name) => {
      const files = join(directory, name);
      await mkdir(files, { recursive: true });
      const repo = new SqliteSessionRepo({
        directory: files,
        ...(shared ? { databasePath: join(files, "sessions.sqlite") } : {}),
        databaseFactory: createNodeSqliteFactory(),
      });
      return {
        repo: repo as never,
        storageOf: async (session) => storageInside(session),
        addSessions: (count) => (shared ? addRows(repo, count) : addFiles(repo, count)),
      };
    }),
    close: async () => {},
  };
}

/** Copies the file of an empty session: creating ten thousand of them as usual takes minutes. */
async function addFiles(repo: SqliteSessionRepo, count: number): Promise<void> {
  const template = await createTemplate(repo);
  const file = await realpath(template.path);
  for (let index = 0; index < count; index++) {
    const id = sessionRepoBenchmarkSessionId(index);
    const copy = join(dirname(file), `${id}.sqlite`);
    await copyFile(file, copy);
    rename(copy, template.id, id);
  }
  await rm(file);
}

async function addRows(repo: SqliteSessionRepo, count: number): Promise<void> {
  const template = await createTemplate(repo);
  const database = new DatabaseSync(template.path);
  database.exec("begin");
  const columns = (database.prepare("pragma table_info(sessions)").all() as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => name !== "id");
  const insert = database.prepare(
    `insert into sessions (id, ${columns.join(", ")}) select ?, ${columns.join(", ")} from sessions where id = ?`,
  );
  for (let index = 0; index < count; index++) insert.run(sessionRepoBenchmarkSessionId(index), template.id);
  database.prepare("delete from sessions where id = ?").run(template.id);
  database.exec("commit");
  database.close();
}

async function createTemplate(repo: SqliteSessionRepo): Promise<{ id: string; path: string }> {
  const session = await repo.create({ id: "template" }, BACKGROUND_CONTEXT);
  await session.close(BACKGROUND_CONTEXT);
  return { id: session.metadata.id, path: session.metadata.path };
}

function rename(file: string, from: string, to: string): void {
  const database = new DatabaseSync(file);
  database.exec("pragma synchronous = off");
  database.prepare("update sessions set id = ? where id = ?").run(to, from);
  database.close();
}
