import type { SessionSnapshot } from "../postgres/export-session.ts";
import type { LeftOut } from "./left-out.ts";
import { V3Encoder } from "./v3-encoder.ts";
import { v3Header } from "./v3-lines.ts";

/** A session as a version 3 file, with the ids of its entries. `leftOut` is complete after the last piece. */
export async function* exportV3(
  session: SessionSnapshot,
  leftOut: LeftOut,
  { parentPath }: { parentPath?: string } = {},
): AsyncGenerator<Buffer> {
  const { metadata } = session;
  const parentSession = parentPath ?? metadata.legacyParentSessionPath;
  if (metadata.parentSessionId !== undefined && parentSession === undefined) leftOut.parent = 1;
  if (metadata.metadata !== undefined) leftOut.metadata = 1;
  yield Buffer.from(v3Header(metadata, parentSession));
  const leaf = { id: null, entryId: null, time: metadata.createdAt };
  yield* blocksOf(new V3Encoder(session, leftOut, { leaf, fromSeq: 1 }).lines());
}

const BLOCK_LENGTH = 64 * 1024;

/** Lines in pieces that are worth a system call. */
export async function* blocksOf(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  let block = "";
  for await (const line of lines) {
    if (block.length + line.length > BLOCK_LENGTH && block !== "") {
      yield Buffer.from(block);
      block = "";
    }
    block += line;
  }
  if (block !== "") yield Buffer.from(block);
}
