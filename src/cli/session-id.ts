import { InvalidArgumentError } from "commander";
import { SessionNotFoundError } from "../contract/errors.ts";
import type { PgSessionRepo } from "../postgres/repo.ts";
import { context } from "./interruption.ts";

const MAX_MATCHES = 5;

/**
 * The session that somebody means: the one of this very id, else the only one whose id begins so.
 *
 * @throws SessionNotFoundError, InvalidArgumentError when several begin so
 */
export async function resolveSessionId(repo: PgSessionRepo, prefix: string): Promise<string> {
  if ((await repo.importer.find(prefix, context)) !== undefined) return prefix;
  const found = await repo.list({ idPrefix: prefix, limit: MAX_MATCHES }, context);
  const [id] = found.map((metadata) => metadata.id);
  if (id === undefined) throw new SessionNotFoundError(prefix);
  if (found.length > 1) {
    const some = found.map((metadata) => metadata.id).join(", ");
    throw new InvalidArgumentError(`Several sessions begin with "${prefix}" (${some}): type more of the id.`);
  }
  return id;
}
