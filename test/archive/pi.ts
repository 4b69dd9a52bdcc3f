import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { NodeExecutionEnv } from "@earendil-works/pi-agent-core/harness/env/nodejs";
import {
  type JsonlSessionMetadata,
  JsonlSessionRepo,
  type Session,
} from "@earendil-works/pi-agent-core/harness/session";
import { BACKGROUND_CONTEXT as context } from "../../src/contract/context.ts";
import { scratch } from "./scratch.ts";

/** pi's own repository of session files in this directory. */
export function piRepo(sessionsRoot: string, now?: () => number): JsonlSessionRepo {
  const fileSystem = new NodeExecutionEnv({ cwd: sessionsRoot });
  return new JsonlSessionRepo({ fileSystem, sessionsRoot, ...(now === undefined ? {} : { now }) });
}

/** Lets pi open a copy of the file and looks at the session. */
export async function inPi<T>(
  path: string,
  look: (session: Session<JsonlSessionMetadata>) => Promise<T>,
): Promise<T> {
  await using root = await scratch();
  const directory = join(root.path, "--copy--");
  await mkdir(directory);
  await copyFile(path, join(directory, "session.jsonl"));
  const repo = piRepo(root.path);
  const [metadata] = await repo.list(undefined, context);
  if (metadata === undefined) throw new Error(`pi does not see a session in ${path}`);
  const session = await repo.open(metadata, context);
  try {
    return await look(session);
  } finally {
    await session.close(context);
  }
}
