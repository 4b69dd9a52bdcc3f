import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core/harness/context";
import { NodeExecutionEnv } from "@earendil-works/pi-agent-core/harness/env/nodejs";
import { JsonlSessionRepo, type SessionRepo } from "@earendil-works/pi-agent-core/harness/session";
import { sessionRepoBenchmarkSessionId } from "@earendil-works/pi-agent-core/harness/session/testing";
import { groupsOf, type SessionStore, storageInside } from "./session-store.ts";

const CWD = "/project";

/** pi's `JsonlSessionRepo`. It appends without waiting for the disk. */
export function openJsonlStore(directory: string): SessionStore {
  return {
    group: groupsOf(async (name) => {
      const sessionsRoot = join(directory, name);
      await mkdir(sessionsRoot, { recursive: true });
      const repo = new JsonlSessionRepo({
        fileSystem: new NodeExecutionEnv({ cwd: directory }),
        sessionsRoot,
      });
      return {
        repo: withCwd(repo),
        storageOf: async (session) => storageInside(session),
        addSessions: (count) => addFiles(repo, count),
      };
    }),
    close: async () => {},
  };
}

/** It asks for a directory where pi's scenarios give none. */
function withCwd(repo: JsonlSessionRepo): SessionRepo {
  const plain: SessionRepo = {
    create: (options, context) => repo.create({ ...options, cwd: CWD }, context),
    open: (metadata, context) => repo.open(metadata as never, context),
    list: (_options, context) => repo.list(undefined, context),
    delete: (metadata, context) => repo.delete(metadata as never, context),
    fork: (source, options, context) => repo.fork(source as never, options, context),
  };
  return plain;
}

/** Writes the file of an empty session under other ids: each `create` reads the whole directory first. */
async function addFiles(repo: JsonlSessionRepo, count: number): Promise<void> {
  const template = await repo.create({ id: "template", cwd: CWD }, BACKGROUND_CONTEXT);
  const { id, path } = template.metadata;
  await template.close(BACKGROUND_CONTEXT);
  const text = await readFile(path, "utf8");
  for (let index = 0; index < count; index++) {
    const other = sessionRepoBenchmarkSessionId(index);
    await writeFile(path.replaceAll(id, other), text.replaceAll(id, other));
  }
  await rm(path);
}
