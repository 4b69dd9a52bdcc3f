import { dirname, join, win32 } from "node:path";
import { isStorable, TEXT_LIMITS } from "../contract/text.ts";
import { ArchiveFile } from "./archive-file.ts";
import { ArchiveError } from "./errors.ts";
import { readHeader, type V3Header } from "./header.ts";
import { IdIndex } from "./id-index.ts";
import { isJsonObject } from "./json-object.ts";
import { LineReader } from "./line-reader.ts";
import { timestampOf, type V3RetainedRecord, type V3Usage } from "./v3-record.ts";

/** Which records of a fork were copied from its parent, whose ledger they are in. */
export interface Inheritance {
  includes(record: V3RetainedRecord | V3Usage): boolean;
}

/**
 * Decides by files alone, so that it does not matter what is imported first: by the ids in the parent's file, looked
 * for where the header says and else beside the fork; where there is none, by time, since all that a fork copied was
 * written before the fork was made.
 *
 * @throws what `onRead` throws
 */
export async function inheritanceOf(
  { path }: ArchiveFile,
  header: V3Header,
  onRead: () => void,
): Promise<Inheritance> {
  const { parentSession, createdAt, id } = header;
  if (parentSession === undefined) return NOTHING;
  for (const place of [parentSession, join(dirname(path), win32.basename(parentSession))]) {
    const ids = await idsIn(place, id, onRead);
    if (ids !== undefined) return { includes: (record) => ids.has(record.id) };
  }
  return { includes: (record) => timestampOf(record) < createdAt };
}

const NOTHING: Inheritance = { includes: () => false };

/** `undefined` if this is no version 3 file of another session: version 1 has no ids, and format 4 has other ones. */
async function idsIn(path: string, ofFork: string, onRead: () => void): Promise<IdIndex | undefined> {
  try {
    await using file = await ArchiveFile.open(path);
    const header = await readHeader(file, { lenient: true });
    if (header.id === ofFork || header.format === 1 || header.format === 4) return undefined;
    const ids = new IdIndex();
    for await (const lines of new LineReader(file, { onRead }).blocks()) {
      for (const { bytes } of lines) {
        const id = idOf(bytes);
        if (isStorable(id) && Buffer.byteLength(id) <= TEXT_LIMITS.id) ids.add(id);
      }
    }
    return ids;
  } catch (error) {
    if (error instanceof ArchiveError) return undefined;
    throw error;
  }
}

/** Most lines begin with it, and then the rest need not be read. */
const HEAD = /^\{"type":"\w+","id":"([^"\\]+)"/;
const HEAD_BYTES = 1024;

function idOf(line: Buffer): unknown {
  const head = HEAD.exec(line.toString("utf8", 0, HEAD_BYTES));
  if (head !== null) return head[1];
  try {
    const json: unknown = JSON.parse(line.toString());
    return isJsonObject(json) ? json["id"] : undefined;
  } catch {
    return undefined; // a broken line of the parent is told when the parent is imported
  }
}
