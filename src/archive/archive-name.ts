import { createHash } from "node:crypto";

/** Longer names are refused by common file systems. */
const MAX_NAME_BYTES = 255;
const ENDING = ".jsonl";

/** The name that pi gives the file of a session: when it was created, and its id. */
export function archiveName({ id, createdAt }: { id: string; createdAt: number }): string {
  const time = isoTime(createdAt).replaceAll(/[:.]/g, "-");
  const name = `${time}_${encodeURIComponent(id)}${ENDING}`;
  if (name.length <= MAX_NAME_BYTES) return name;
  const hash = createHash("sha256").update(id).digest("hex");
  return `${name.slice(0, MAX_NAME_BYTES - hash.length - ENDING.length - 1)}~${hash}${ENDING}`;
}

/** The last moment that a date can be. */
const MAX_TIME = 8.64e15;

/** ISO 8601, of milliseconds since the epoch; the nearest there is for a moment that a date cannot be. */
export function isoTime(time: number): string {
  return new Date(Math.min(Math.max(time, -MAX_TIME), MAX_TIME)).toISOString();
}
